package miner

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/message"
)

// TestAnyScheduleReplays drives one middle miner through a random schedule (forwards, backwards, reruns, passing work,
// faults, late acknowledgements, drops) and does its log again.
func TestAnyScheduleReplays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &schedule{rt: rt, n: &network{
			t: t, logs: map[*Miner][]*message.Receipt{}, blobs: map[string][]byte{}, acks: map[*Miner]uint64{},
			manifest: testManifest(t, func(m *message.Manifest) {
				m.Model.SeqLen, m.Model.Batch = 8, 1
				m.Rules.MicroBatchesPerStep = uint32(rapid.IntRange(1, 3).Draw(rt, "K"))
				m.Rules.ChallengeWindow, m.Rules.AuditShare = 1, 0.1
				m.Rules.CommitEvery = uint32(rapid.IntRange(1, 3).Draw(rt, "C"))
				m.Rules.InnerSteps = uint32(rapid.IntRange(1, 4).Draw(rt, "H"))
				m.Rules.Recompute = rapid.Bool().Draw(rt, "recompute")
				m.Rules.Share = rapid.SampledFrom([]string{"f32", "bf16", "int8"}).Draw(rt, "share")
				m.Model.Boundary = rapid.SampledFrom([]string{model.None, model.Bottleneck, model.SSN}).Draw(rt, "boundary")
				m.Model.Wire = rapid.SampledFrom([]string{"f32", "bf16", "int8"}).Draw(rt, "wire")
			}),
		}}
		s.m = newMiner(t, s.n.manifest, 1)
		s.n.miners = [][]*Miner{{s.m}, {s.m}, {s.m}}
		s.n.do(s.m, &message.Task{Id: s.n.id(message.TaskKind_LOAD, 0, 1), RateBits: math.Float32bits(testRate)})
		for range rapid.IntRange(1, 2).Draw(rt, "epochs") {
			for range rapid.IntRange(5, 25).Draw(rt, "events") {
				s.event()
			}
			s.bounded()
			s.merge()
			s.n.do(s.m, &message.Task{Id: s.n.id(message.TaskKind_UPLOAD, 0, 1)})
		}
		s.segments()
		got, err := Replay(s.n.manifest, sampleText(), kernel.New(1), s.n.logs[s.m], s.n.blob, nil)
		if err != nil {
			rt.Fatal(err)
		}
		if got.Problem != "" {
			rt.Fatalf("%d of %d receipts hold: %s", got.Checked, len(s.n.logs[s.m]), got.Problem)
		}
	})
}

// segments replays each stretch of the last epoch between two commitments on its own, from the kept states and the orders
// alone, and demands what the log has.
func (s *schedule) segments() {
	s.rt.Helper()
	log := s.n.logs[s.m]
	epoch := s.m.epoch - 1
	from := max(0, slices.IndexFunc(log, func(r *message.Receipt) bool {
		return r.Task.Kind == message.TaskKind_INSTALL && r.Task.Epoch+1 == epoch
	}))
	log = log[from:]
	state := func(step uint64) []byte {
		r := s.n.do(s.m, &message.Task{Id: &message.TaskID{Kind: message.TaskKind_STATE, Epoch: epoch, Batch: step, Stage: 1}, Attempt: 1})
		if r.Fault != message.Fault_FAULT_NONE {
			s.rt.Fatalf("state of step %d: %s", step, r.Note)
		}
		b, _ := s.n.blob(r.Outputs[0].Hash)
		return b
	}
	for n, segment := range message.Segments(log, uint64(s.n.manifest.Rules.InnerSteps)) {
		l := Log{Private: state(0), Blobs: s.n.blob}
		if segment.Resume > 0 {
			l.Resume = state(segment.Step)
		}
		if len(log[0].Outputs) == 1 {
			l.Checkpoint = log[0].Outputs[0].Hash
		}
		for _, i := range segment.Receipts {
			l.Receipts = append(l.Receipts, log[i].Ordered())
		}
		got, err := l.Again(s.n.manifest, sampleText(), kernel.New(1))
		if err != nil {
			s.rt.Fatalf("segment %d: %v", n, err)
		}
		if got.Problem != "" || len(got.Receipts) != len(l.Receipts) {
			s.rt.Fatalf("segment %d: %d of %d receipts: %s", n, len(got.Receipts), len(l.Receipts), got.Problem)
		}
		for i, at := range segment.Receipts {
			if what := message.Differs(got.Receipts[i], segment.Want(i, log[at])); what != "" {
				s.rt.Fatalf("segment %d, %s: %s", n, log[at].Task.Key(), what)
			}
		}
	}
}

// schedule is a random life of one miner of stage 1.
type schedule struct {
	rt      *rapid.T
	n       *network
	m       *Miner
	attempt uint32
	batch   uint64
	held    []uint64           // micro-batches whose forward was done
	waiting []*message.Receipt // backwards without an acknowledgement
}

// take removes a random element of a list.
func take[T any](rt *rapid.T, list *[]T) T {
	i := rapid.IntRange(0, len(*list)-1).Draw(rt, "index")
	x := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return x
}

func (s *schedule) event() {
	s.attempt++
	wire := s.n.wire(float32(rapid.IntRange(1, 5).Draw(s.rt, "wire")))
	task := &message.Task{Attempt: s.attempt, Inputs: []*message.BlobRef{wire}}
	switch kind := rapid.IntRange(0, 8).Draw(s.rt, "event"); {
	case kind <= 2:
		s.batch++
		task.Id = s.n.id(message.TaskKind_FORWARD, s.batch, 1)
		if s.n.fault(s.m, task) == message.Fault_FAULT_NONE {
			s.held = append(s.held, s.batch)
		}
	case kind <= 4 && len(s.held) > 0:
		task.Id = s.n.id(message.TaskKind_BACKWARD, take(s.rt, &s.held), 1)
		task.Passing = rapid.IntRange(0, 4).Draw(s.rt, "passing") == 0
		s.backward(task)
	case kind == 5:
		s.batch++
		task.Id = s.n.id(message.TaskKind_BACKWARD, s.batch, 1)
		task.Rerun, task.Inputs = true, []*message.BlobRef{wire, wire}
		s.backward(task)
	case kind == 6 && len(s.held) > 0:
		s.m.Drop(s.n.id(message.TaskKind_FORWARD, take(s.rt, &s.held), 1), 0)
	case kind == 7 && len(s.waiting) > 0:
		r := take(s.rt, &s.waiting)
		s.m.Drop(r.Task, r.Attempt)
	case kind == 8:
		task.Id = s.n.id(message.TaskKind_FORWARD, s.batch+1, 1)
		task.Inputs = []*message.BlobRef{s.n.wire(float32(math.NaN()))}
		if f := s.n.fault(s.m, task); f != message.Fault_NON_FINITE_INPUT {
			s.rt.Fatalf("NaN: fault %s", f)
		}
	case len(s.waiting) > 0:
		s.n.ack(s.m, take(s.rt, &s.waiting))
	}
}

func (s *schedule) backward(task *message.Task) {
	r, _, err := s.n.try(s.m, task)
	if err != nil {
		s.rt.Fatal(err)
	}
	if r.Fault == message.Fault_FAULT_NONE && !task.Passing {
		s.waiting = append(s.waiting, r)
	}
}

// bounded checks that the miner holds no more than the rules allow.
func (s *schedule) bounded() {
	rules := s.m.rules
	if len(s.m.slots) > rules.slots || len(s.m.waiting) > rules.queue() {
		s.rt.Fatalf("%d slots, %d gradients wait", len(s.m.slots), len(s.m.waiting))
	}
	if vectors := len(s.m.buffers.vectors.free); vectors > rules.slots+rules.queue()+6 {
		s.rt.Fatalf("%d vectors lie about", vectors)
	}
}

// merge ends the epoch, by a share or without one.
func (s *schedule) merge() {
	plan := s.n.plan(1)
	kind := rapid.SampledFrom([]message.TaskKind{message.TaskKind_SHARE, message.TaskKind_CLOSE}).Draw(s.rt, "end")
	task := &message.Task{Id: s.n.id(kind, 0, 1)}
	if kind == message.TaskKind_SHARE {
		task.Plan = plan
	}
	merged := s.n.do(s.m, task).Outputs
	if kind == message.TaskKind_CLOSE {
		merged = []*message.BlobRef{{}}
	}
	s.n.install(1, plan, merged)
	s.n.epoch++
	clear(s.n.acks)
	s.held, s.waiting = nil, nil
}

func TestTrainingAllocatesNoTensorsOnceItRuns(t *testing.T) {
	n := newNetwork(t, testManifest(t, nil), 1)
	for range 5 {
		n.train(n.column(0))
	}
	vectors := func() (total int) {
		for _, m := range n.column(0) {
			total += len(m.buffers.vectors.free) + len(m.buffers.tapes) + len(m.slots) + len(m.waiting)
		}
		return total
	}
	before := vectors()
	for range 20 {
		n.train(n.column(0))
	}
	if after := vectors(); after != before {
		t.Errorf("the pools went from %d vectors and tapes to %d", before, after)
	}
}
