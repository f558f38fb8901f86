package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// seconds is how transcripts and errors write a time.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }

// note adds a line to the transcript.
func (s *Sim) note(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%s %s", seconds(s.now), fmt.Sprintf(format, args...)))
}

// Lines returns what happened since the last call, one line per happening.
func (s *Sim) Lines() []string {
	lines := s.lines
	s.lines = nil
	return lines
}

// ignored notes that an order made no sense to a worker, which changed nothing.
func (s *Sim) ignored(m *Machine, err error) { s.note("%s ignores an order: %v", m.name(), err) }

// seen is what the transcript said of the core last.
type seen struct {
	phase    orchestrator.Phase
	epoch    uint64
	draining bool
	finished bool
	alert    orchestrator.Alert
	expired  uint64
	epochs   int
}

// observe writes down what an event changed that a reader wants to know, and checks the laws.
func (s *Sim) observe(in *message.Event, out []*message.Outbound) {
	o, was := s.hub.core, &s.seen
	s.noteAlerts()
	if n := o.Counters.LeasesExpired; n != was.expired {
		s.note("%d leases expired", n-was.expired)
		was.expired = n
	}
	for _, order := range out {
		if r := order.GetOrder().GetRefusal(); r.GetTask() != nil {
			s.note("refused: %s of %s: %s", r.GetTask().Key(), s.find(order.GetTo()).name(), firstPart(r.GetReason()))
		}
	}
	if n := len(o.Epochs); n != was.epochs {
		was.epochs = n
		e := o.Epochs[n-1]
		s.note("epoch %d: %d tokens, loss %.3f, cohort %d, %d shards, %d lost, %d disputed", e.Epoch, e.Tokens, e.Loss,
			e.Cohort, e.Shards, e.ShardsLost, e.Disagreements)
	}
	if o.Phase != was.phase || o.Epoch != was.epoch || o.Draining != was.draining || o.Finished != was.finished {
		was.phase, was.epoch, was.draining, was.finished = o.Phase, o.Epoch, o.Draining, o.Finished
		s.note("%s of epoch %d: %s", o.Phase, o.Epoch, o.Reason)
	}
	s.laws.check(out)
}

// noteAlerts writes down the alerts that are new. The core keeps the newest ones only.
func (s *Sim) noteAlerts() {
	list, fresh := s.hub.core.Alerts, 0
	for i := len(list) - 1; i >= 0 && list[i] != s.seen.alert; i-- {
		fresh++
	}
	for _, a := range list[len(list)-fresh:] {
		s.note("alert: %s", a.Text)
		s.seen.alert = a
	}
}

// firstPart is a refusal's reason up to the first semicolon.
func firstPart(reason string) string {
	part, _, _ := strings.Cut(reason, ";")
	return part
}
