package node

import (
	"sync/atomic"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// Vitals say how the process behind a run is: whether it moves, and how fast its journal is. They are counted since the
// process began and cost the run a few additions.
type Vitals struct {
	Serving     bool          // participants are served, and no write has failed
	Still       time.Duration // since the core last moved; at most a tick while all is well
	Seq         uint64        // of the last durable event
	Connections int           // registered participants
	Groups      Histogram     // events that became durable together
	Durable     Histogram     // seconds that this took
}

// Histogram counts values up to each bound; the last count is of those beyond.
type Histogram struct {
	Bounds []float64
	Counts []uint64
	Sum    float64
}

var (
	groupBounds   = []float64{1, 2, 4, 8, 16, 32, 64, 128, maxBatch}
	durableBounds = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5}
)

// buckets counts values of a histogram: one goroutine adds, any reads. It takes no memory while it does.
type buckets struct {
	counts [16]atomic.Uint64
	sum    atomic.Uint64 // of the values times scale
}

const scale = 1e6

func (b *buckets) add(bounds []float64, value float64) {
	i := 0
	for i < len(bounds) && value > bounds[i] {
		i++
	}
	b.counts[i].Add(1)
	b.sum.Add(uint64(value * scale))
}

func (b *buckets) read(bounds []float64) Histogram {
	h := Histogram{Bounds: bounds, Sum: float64(b.sum.Load()) / scale}
	for i := range len(bounds) + 1 {
		h.Counts = append(h.Counts, b.counts[i].Load())
	}
	return h
}

// vitals are those of a Hub. Its goroutine writes them.
type vitals struct {
	serving     atomic.Bool
	pulse       atomic.Int64 // nanoseconds since 1970
	seq         atomic.Uint64
	connections atomic.Int64
	groups      buckets
	durable     buckets
}

// beat notes that the core's goroutine moves.
func (v *vitals) beat(connections int) {
	v.pulse.Store(time.Now().UnixNano())
	v.connections.Store(int64(connections))
}

// committed notes a durable group.
func (v *vitals) committed(seq uint64, events int, took time.Duration) {
	v.seq.Store(seq)
	v.groups.add(groupBounds, float64(events))
	v.durable.add(durableBounds, took.Seconds())
}

// Vitals returns how the process is.
func (h *Hub) Vitals() Vitals {
	v := &h.vitals
	return Vitals{
		Serving: v.serving.Load(), Still: time.Since(time.Unix(0, v.pulse.Load())), Seq: v.seq.Load(),
		Connections: int(v.connections.Load()), Groups: v.groups.read(groupBounds), Durable: v.durable.read(durableBounds),
	}
}

// Labours say how the process of a participant is, since it began.
type Labours struct {
	Connected bool          // the orchestrator has welcomed it
	Busy      time.Duration // that the running task takes so far, 0 if none runs
	Uploaded  uint64        // bytes of outputs
	Lost      uint64        // connections that broke off
	Tasks     [message.Kinds]uint64
	Seconds   [message.Kinds]float64 // of compute, by kind of task
}

// labours are those of a Miner.
type labours struct {
	connected atomic.Bool
	began     atomic.Int64 // of the running task, nanoseconds since 1970; 0 if none runs
	lost      atomic.Uint64
	tasks     [message.Kinds]atomic.Uint64
	nanos     [message.Kinds]atomic.Int64
}

// task counts one task, from now until done.
func (l *labours) task(kind message.TaskKind) (done func()) {
	began := time.Now()
	l.began.Store(began.UnixNano())
	return func() {
		l.began.Store(0)
		if int(kind) < len(l.tasks) && kind >= 0 {
			l.tasks[kind].Add(1)
			l.nanos[kind].Add(int64(time.Since(began)))
		}
	}
}

// Labours returns how the process is.
func (m *Miner) Labours() Labours {
	l := &m.labours
	out := Labours{Connected: l.connected.Load(), Uploaded: m.uploaded.Load(), Lost: l.lost.Load()}
	if began := l.began.Load(); began != 0 {
		out.Busy = time.Since(time.Unix(0, began))
	}
	for i := range out.Tasks {
		out.Tasks[i], out.Seconds[i] = l.tasks[i].Load(), time.Duration(l.nanos[i].Load()).Seconds()
	}
	return out
}
