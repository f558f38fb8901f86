package orchestrator_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// nonsense is a receipt that an attacker might sign: any kind, any number, any count.
func nonsense(d *rand.Rand) *message.Receipt {
	number := func() uint64 {
		return []uint64{0, 1, 2, 3, 1 << 20, math.MaxUint32, math.MaxUint64}[d.IntN(7)]
	}
	float := func() float64 {
		return []float64{0, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64}[d.IntN(7)]
	}
	r := &message.Receipt{
		Task: &message.TaskID{Kind: message.TaskKind(d.IntN(15)), Epoch: uint64(d.IntN(3)), Batch: number(), Stage: uint32(d.IntN(5)),
			Shard: uint32(number())},
		Attempt: uint32(d.IntN(6)), FaultyInput: uint32(number()), LossBits: math.Float64bits(float()), Fault: message.Fault(d.IntN(7)),
		GradientNorm: float(), UpdateNorm2: float(), ResultNorm2: float(), Note: "x",
	}
	for range []int{0, 1, 1, 2, 50}[d.IntN(5)] {
		r.Outputs = append(r.Outputs, &message.BlobRef{Hash: make([]byte, []int{0, 32, 32, 33}[d.IntN(4)]), Size: number()})
	}
	for range d.IntN(4) {
		r.Summed = append(r.Summed, &message.Summed{Batch: number(), Attempt: uint32(number())})
		r.Sources = append(r.Sources, &message.SourceStats{Finite: d.IntN(2) == 0, Norm2: float(), Dot: float()})
	}
	return r
}

func TestNonsenseNeitherStopsTheCoreNorSpoilsItsState(t *testing.T) {
	for seed := range uint64(20) {
		d := rand.New(rand.NewPCG(seed, 1))
		n := newNet(t, 3, nil)
		n.hostile = true
		for i := range 7 {
			n.join(i)
		}
		var liar *peer
		var key []byte
		for k, p := range n.peers {
			if p.session[0] == 6 { // the last to join lies besides its work
				liar, key = p, []byte(k)
			}
		}
		for i := 0; i < 3000 && !n.core.View().Finished; i++ {
			n.now += time.Millisecond
			if d.IntN(3) == 0 {
				n.result(liar, key, nonsense(d))
			}
			if d.IntN(50) == 0 {
				n.send(&message.Event{Miner: key, Kind: &message.Event_Register{Register: &message.Register{
					Session: make([]byte, d.IntN(20)), Numerics: "test", Speed: math.NaN(), AcksSeen: math.MaxUint64}}})
			}
			n.one()
		}
		state, err := n.core.Snapshot()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, err := orchestrator.New(n.m, n.secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Restore(state); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if b, err := again.Snapshot(); err != nil || !bytes.Equal(b, state) {
			t.Fatalf("seed %d: the state does not survive a snapshot: %v", seed, err)
		}
		v := n.core.View()
		if !v.Finished {
			t.Errorf("seed %d: not finished: %s of epoch %d, %s", seed, v.Phase, v.Epoch, v.Reason)
		}
		for _, m := range v.Miners {
			if m.Held < 0 || m.Held > int(n.m.Rules.MaxSlots) {
				t.Errorf("seed %d: miner %d holds %d slots", seed, m.Number, m.Held)
			}
		}
		for _, s := range v.Stages {
			if s.Merged+s.Unmerged > s.Acknowledged {
				t.Errorf("seed %d: stage %d merged %d and lost %d of %d", seed, s.Index, s.Merged, s.Unmerged, s.Acknowledged)
			}
		}
	}
}

// TestAFaultSaysNothingOfBlobs has a liar that is ordered nothing name blobs together with a fault: the edge looks at no
// blob of such a receipt, so that the core must not take its word that there is one, nor how large it is.
func TestAFaultSaysNothingOfBlobs(t *testing.T) {
	n := newNet(t, 2, nil)
	for i := range 4 {
		n.join(i)
	}
	for range 100 {
		n.one()
	}
	for k, p := range n.peers {
		if p.session[0] != 3 {
			continue
		}
		ref := message.NewBlob([]byte("stored by nobody")).Ref()
		n.result(p, []byte(k), &message.Receipt{Task: &message.TaskID{Kind: message.TaskKind_FORWARD}, Fault: message.Fault_FAILED,
			Outputs: []*message.BlobRef{ref}})
		if n.core.Holds(ref.GetHash()) {
			t.Error("the run keeps a blob that nobody stored")
		}
	}
}

// lie changes an answer that the core awaits: this reaches what a receipt out of the blue does not.
func lie(d *rand.Rand, r *message.Receipt) {
	huge := []float64{math.MaxFloat64, -math.MaxFloat64, math.NaN(), math.Inf(1)}[d.IntN(4)]
	switch d.IntN(10) {
	case 0:
		r.LossBits = math.Float64bits(huge)
	case 1:
		r.GradientNorm, r.UpdateNorm2, r.ResultNorm2 = huge, huge, huge
	case 2:
		for _, s := range r.Sources {
			s.Norm2, s.Dot = huge, -huge
		}
	case 3:
		r.Sources = nil
	case 4:
		r.Outputs = nil
	case 5:
		r.Outputs = slices.Repeat(r.Outputs, 500)
	case 6:
		r.Summed = slices.Repeat([]*message.Summed{{Batch: 1}}, 500)
	case 7:
		r.Fault, r.Note = message.Fault_FAILED, strings.Repeat("\x1b[2J\n", 10_000)
	case 8:
		r.Fault = []message.Fault{message.Fault_NON_FINITE_INPUT, message.Fault_MISSING_INPUT}[d.IntN(2)]
		r.FaultyInput = uint32(d.IntN(3))
	case 9:
		for _, s := range r.Sources {
			s.Finite = d.IntN(2) == 0
		}
	}
}

func TestNoAnswerMakesTheStateUnwritable(t *testing.T) {
	for seed := range uint64(16) {
		d := rand.New(rand.NewPCG(seed, 2))
		n := newNet(t, 3, func(r *message.Rules) {
			r.EpochDeadline, r.DrainDeadline = int64(500*time.Millisecond), int64(100*time.Millisecond)
		})
		n.hostile = true
		for i := range 9 {
			n.join(i)
		}
		liar := n.core.View().Miners[seed%9].Key
		n.bend = func(key string, _ *message.Task, r *message.Receipt) {
			if key == string(liar) && d.IntN(2) == 0 {
				lie(d, r)
			}
		}
		for i := 0; i < 20_000 && !n.core.View().Finished; i++ {
			n.now += time.Millisecond
			n.one()
			if i%100 > 0 {
				continue
			}
			if b, err := n.core.Snapshot(); err != nil || len(b) > 1<<20 {
				t.Fatalf("seed %d: a snapshot of %d bytes: %v", seed, len(b), err)
			}
		}
		v := n.core.View()
		if !v.Finished {
			t.Errorf("seed %d: not finished: %s of epoch %d, %s", seed, v.Phase, v.Epoch, v.Reason)
		}
		for _, a := range v.Alerts {
			if strings.ContainsAny(a.Text, "\x1b\n") {
				t.Errorf("seed %d: an alert with control characters: %.40q", seed, a.Text)
			}
		}
	}
}

func TestAStatedSpeedKeepsTheStateFinite(t *testing.T) {
	for _, speed := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 5e-324, 1e-310, math.MaxFloat64} {
		n := newNet(t, 1, nil)
		n.send(&message.Event{Miner: []byte("stranger"), Kind: &message.Event_Register{Register: &message.Register{
			Session: make([]byte, 16), Numerics: "test", Speed: speed}}})
		if _, err := n.core.Snapshot(); err != nil {
			t.Errorf("speed %g: %v", speed, err)
		}
	}
}
