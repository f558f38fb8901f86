package metrics

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/protocol/message"
)

// Participant collects from the process of a miner or of a validator.
type Participant struct {
	Labours func() node.Labours // before it has work, the zero value
	Version string
}

var participantSeries = []series[node.Labours]{
	gauge("connected", "1 while the orchestrator has this participant.", func(l node.Labours) float64 { return truth(l.Connected) }),
	gauge("task_running_seconds", "Time that the running task takes so far.", func(l node.Labours) float64 { return l.Busy.Seconds() }),
	counter("uploaded_bytes_total", "Bytes of outputs that were stored.", func(l node.Labours) float64 { return float64(l.Uploaded) }),
	counter("connections_lost_total", "Connections to the orchestrator that broke off or could not be made.", func(l node.Labours) float64 { return float64(l.Lost) }),
}

var (
	participantInfoDesc = describe("participant_info", "The program.", "version")
	tasksDesc           = describe("tasks_total", "Tasks that were done.", "kind")
	taskSecondsDesc     = describe("task_seconds_total", "Time that those took to compute.", "kind")
)

// Describe leaves the registry to look at what is collected.
func (p *Participant) Describe(chan<- *prometheus.Desc) {}

// Collect reads everything once.
func (p *Participant) Collect(ch chan<- prometheus.Metric) {
	l := p.Labours()
	number(ch, participantInfoDesc, prometheus.GaugeValue, 1, p.Version)
	for _, s := range participantSeries {
		s.send(ch, l)
	}
	for kind, n := range l.Tasks {
		if n > 0 {
			name := message.TaskKind(kind).Name()
			number(ch, tasksDesc, prometheus.CounterValue, float64(n), name)
			number(ch, taskSecondsDesc, prometheus.CounterValue, l.Seconds[kind], name)
		}
	}
}

// maxTask is for how long a task may run before the participant counts as stuck. The orchestrator gives its work away far
// earlier.
const maxTask = 30 * time.Minute

// Alive says why the process should be started anew. That the orchestrator is away is no reason.
func (p *Participant) Alive() string {
	if busy := p.Labours().Busy; busy > maxTask {
		return fmt.Sprintf("one task runs for %v", busy.Round(time.Minute))
	}
	return ""
}

// Ready says why it does not work in the run.
func (p *Participant) Ready() string {
	if !p.Labours().Connected {
		return "the orchestrator does not have this participant now"
	}
	return p.Alive()
}
