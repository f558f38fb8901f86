package miner

import (
	"math"
	"slices"
	"testing"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/aggregate"
	"github.com/iota-train/iota/protocol/message"
)

func TestSharesConserveThePseudoGradient(t *testing.T) {
	for _, share := range []string{"f32", "bf16", "int8"} {
		t.Run(share, func(t *testing.T) {
			n := newNetwork(t, testManifest(t, func(m *message.Manifest) { m.Rules.Share = share }), 3)
			m := n.miners[1][1]
			for range 3 {
				for i := range 6 {
					n.train(n.column(i % 3))
				}
				want := slices.Clone(m.start.w)
				kernel.Sub(want, m.current.w)
				if m.saved.residual != nil {
					kernel.Add(want, m.saved.residual)
				}
				plan := n.plan(1)
				for attempt := range uint32(2) { // shared again, the residual must not count twice
					r := n.do(m, &message.Task{Id: n.id(message.TaskKind_SHARE, 0, 1), Plan: plan, Attempt: 10 + attempt})
					checkConserved(t, n, m, plan, r, want)
				}
				n.merge()
			}
		})
	}
}

// checkConserved demands that what was sent and the residual add up to want, element by element and exactly.
func checkConserved(t *testing.T, n *network, m *Miner, plan *message.Plan, r *message.Receipt, want []float32) {
	t.Helper()
	sent := make([]float32, m.size)
	for i, ref := range r.Outputs {
		if err := tensor.Decode(sent[plan.Bounds[i]:plan.Bounds[i+1]], n.blobs[string(ref.Hash)], m.rules.share); err != nil {
			t.Fatal(err)
		}
	}
	for i, x := range sent {
		y := float64(x)
		if m.private.residual != nil {
			y += float64(m.private.residual[i])
		}
		if y != float64(want[i]) {
			t.Fatalf("element %d: sent %v, in all %v, the pseudo-gradient is %v", i, x, y, want[i])
		}
	}
}

func TestALateMinerTakesOverACheckpointAndArbitersGetTheSameWeights(t *testing.T) {
	n := newNetwork(t, testManifest(t, func(m *message.Manifest) {
		m.Rules.OuterRate, m.Rules.OuterMomentum = 0.7, 0.9
		m.Model.Boundary, m.Model.Wire = model.Bottleneck, "bf16"
	}), 3)
	for range 2 {
		for i := range 6 {
			n.train(n.column(i % 3))
		}
		n.merge()
	}
	before := n.do(n.miners[1][0], &message.Task{Id: n.id(message.TaskKind_UPLOAD, 0, 1)}).Outputs
	joiner := newMiner(t, n.manifest, 77)
	load := &message.Task{Id: n.id(message.TaskKind_LOAD, 0, 1), Inputs: before, RateBits: math.Float32bits(testRate)}
	if r := n.do(joiner, load); !r.Outputs[0].Same(before[0]) {
		t.Error("the joiner holds other weights than the checkpoint")
	}
	for i := range 6 {
		n.train(n.column(i % 3))
	}
	plan, epoch := n.plan(1), n.epoch
	n.merge()
	var install *message.Receipt
	for _, r := range n.logs[n.miners[1][2]] {
		if r.Task.Kind == message.TaskKind_INSTALL {
			install = r
		}
	}
	lost := make([]*message.BlobRef, len(install.Inputs))
	for i, hash := range install.Inputs {
		lost[i] = message.NewBlob(n.blobs[string(hash)]).Ref()
	}
	outer := &message.Task{
		Id:   &message.TaskID{Kind: message.TaskKind_OUTER, Epoch: epoch, Stage: 1},
		Plan: plan, RateBits: math.Float32bits(testRate), Inputs: append(before, lost...),
	}
	if r := n.do(n.miners[0][0], outer); !r.Outputs[0].Same(install.Outputs[0]) {
		t.Error("the arbiter's outer step leads elsewhere")
	}
	late := &message.Task{
		Id:   &message.TaskID{Kind: message.TaskKind_INSTALL, Epoch: epoch, Stage: 1},
		Plan: plan, RateBits: math.Float32bits(testRate), Inputs: lost,
	}
	if r := n.do(joiner, late); !r.Outputs[0].Same(install.Outputs[0]) {
		t.Error("the joiner's outer step leads elsewhere")
	}
}

func TestALostShardKeepsItsMomentum(t *testing.T) {
	n := newNetwork(t, testManifest(t, func(m *message.Manifest) { m.Rules.OuterRate, m.Rules.OuterMomentum = 0.5, 0.5 }), 1)
	n.train(n.column(0))
	n.merge()
	m := n.miners[0][0]
	start, outer := slices.Clone(m.start.w), slices.Clone(m.outer)
	n.train(n.column(0))
	n.install(0, n.plan(0), []*message.BlobRef{{}})
	for i, x := range m.current.w {
		if want := start[i] - 0.5*(0.5*(0.5*outer[i])); x != want {
			t.Fatalf("weight %d is %v, momentum alone leads to %v", i, x, want)
		}
	}
}

func TestASourceThatIsNotFiniteIsLeftOutOfAReduction(t *testing.T) {
	n := newNetwork(t, testManifest(t, nil), 2)
	plan := n.plan(0)
	size := int(plan.Bounds[1])
	source := func(x float32, n int) []byte {
		s := make([]float32, n)
		s[n-1] = x
		return tensor.Encode(nil, s, tensor.F32, 0)
	}
	task := &message.Task{Id: n.id(message.TaskKind_REDUCE, 0, 0), Plan: plan, Weights: []uint64{1, 3, 5, 7, 9}}
	for _, blob := range [][]byte{source(4, size), source(8, size), source(float32(math.NaN()), size), source(1, size-1), nil} {
		if blob == nil {
			task.Inputs = append(task.Inputs, &message.BlobRef{})
			continue
		}
		task.Inputs = append(task.Inputs, n.store(blob))
	}
	r := n.do(n.miners[2][0], task) // a miner of another stage can do it too
	x := make([]float32, size)
	if err := tensor.Decode(x, n.blobs[string(r.Outputs[0].Hash)], tensor.F32); err != nil {
		t.Fatal(err)
	}
	if x[size-1] != 7 || r.ResultNorm2 != 49 {
		t.Errorf("the mean is %v, its square %v", x[size-1], r.ResultNorm2)
	}
	for i, s := range r.Sources {
		if s.Finite != (i < 2) {
			t.Errorf("source %d: finite is %v", i, s.Finite)
		}
	}
}

func TestEveryRuleMergesAndIsReplayed(t *testing.T) {
	for _, rule := range aggregate.Names() {
		t.Run(rule, func(t *testing.T) {
			n := newNetwork(t, testManifest(t, func(m *message.Manifest) { m.Rules.Aggregate = rule }), 3)
			for range 2 {
				for i := range 6 {
					n.train(n.column(i % 3))
				}
				n.merge() // which demands that owners and replicas agree
			}
			log := n.logs[n.miners[1][0]]
			got, err := Replay(n.manifest, sampleText(), kernel.New(1), log, n.blob, nil)
			if err != nil || got.Problem != "" || got.Checked != len(log) {
				t.Errorf("%d of %d receipts hold: %+v, %v", got.Checked, len(log), got, err)
			}
		})
	}
}
