package miner

import (
	"math"
	"slices"
	"testing"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/optim"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// unsplit trains the whole model as one stage; clipping and outer step go by the groups of the split one.
type unsplit struct {
	n                *network
	engine           *kernel.Engine
	stage            *model.Stage
	tape             *model.Tape
	groups           [][]tensor.Param // of each stage, as places in the whole model
	w, start, g, sum []float32
	m, v, outer      []float32
	tokens           []int32
	step, summed     int
}

func newUnsplit(t testing.TB, n *network) *unsplit {
	t.Helper()
	split := manifest.Shape(n.manifest)
	whole, err := split.WithStages(1)
	if err != nil {
		t.Fatal(err)
	}
	engine := kernel.New(1)
	stage, err := model.NewStage(whole, 0, engine)
	if err != nil {
		t.Fatal(err)
	}
	place := map[string]tensor.Param{}
	for _, p := range whole.Params(0) {
		place[p.Name] = p
	}
	u := &unsplit{n: n, engine: engine, stage: stage, tape: stage.NewTape(), tokens: make([]int32, whole.Batch*(whole.SeqLen+1))}
	for s := range split.Stages() {
		var group []tensor.Param
		for _, p := range split.Params(s) {
			group = append(group, place[p.Name])
		}
		u.groups = append(u.groups, group)
	}
	for _, x := range []*[]float32{&u.w, &u.start, &u.g, &u.sum, &u.m, &u.v, &u.outer} {
		*x = make([]float32, whole.StageSize(0))
	}
	stage.Init(u.w, n.manifest.Data.Seed)
	copy(u.start, u.w)
	return u
}

// train does micro-batch i, and a step after every K.
func (u *unsplit) train(i uint64) float64 {
	c, rules := u.stage.Config(), u.n.manifest.Rules
	sampleText().MicroBatch(u.n.manifest.Data.Seed, i, c.Batch, c.SeqLen, u.tokens)
	loss := u.stage.Loss(u.w, u.tokens, nil, u.tape)
	u.stage.Backward(u.w, u.tape, nil, u.g, nil)
	kernel.Add(u.sum, u.g)
	if u.summed++; u.summed < int(rules.MicroBatchesPerStep) {
		return loss
	}
	u.step++
	kernel.Scale(u.sum, 1/float32(u.summed))
	adam := optim.NewAdamW()
	adam.Decay = rules.WeightDecay
	for _, group := range u.groups {
		size := 0
		for _, p := range group {
			size += p.Size
		}
		limit := optim.StageLimit(rules.Clip, size, c.Parameters())
		scale := optim.Clip(math.Sqrt(optim.NormSquared(group, u.sum)), limit)
		adam.StepScaled(u.engine, group, u.w, u.sum, u.m, u.v, scale, testRate, u.step)
	}
	clear(u.sum)
	u.summed = 0
	return loss
}

func (u *unsplit) merge() {
	rules := u.n.manifest.Rules
	g := slices.Clone(u.start)
	kernel.Sub(g, u.w)
	optim.Nesterov(u.start, u.outer, u.start, u.outer, g, float32(rules.OuterRate), float32(rules.OuterMomentum))
	copy(u.w, u.start)
}

func TestOneMinerPerStageIsUnsplitTrainingBitForBit(t *testing.T) {
	for _, c := range []struct {
		name      string
		k         uint32
		recompute bool
		rate, mu  float64
	}{
		{"one micro-batch per step", 1, false, 1, 0},
		{"two micro-batches per step", 2, false, 0.7, 0.9},
		{"two micro-batches per step, recomputed", 2, true, 0.7, 0.9},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNetwork(t, testManifest(t, func(m *message.Manifest) {
				m.Rules.MicroBatchesPerStep, m.Rules.Recompute = c.k, c.recompute
				m.Rules.OuterRate, m.Rules.OuterMomentum = c.rate, c.mu
			}), 1)
			u := newUnsplit(t, n)
			for epoch := range 3 {
				for range 4 {
					want := u.train(n.batch)
					if got := n.train(n.column(0)); got != want {
						t.Fatalf("epoch %d: loss %v, unsplit %v", epoch, got, want)
					}
				}
				compareWeights(t, n, u.w, func(m *Miner) []float32 { return m.current.w })
				n.merge()
				u.merge()
				compareWeights(t, n, u.w, func(m *Miner) []float32 { return m.current.w })
			}
		})
	}
}

// compareWeights compares every stage's weights with the whole model's.
func compareWeights(t *testing.T, n *network, whole []float32, of func(*Miner) []float32) {
	t.Helper()
	u := newUnsplit(t, n)
	for stage, miners := range n.miners {
		w := of(miners[0])
		for i, p := range miners[0].stage.Params() {
			at := u.groups[stage][i]
			if !slices.Equal(w[p.Offset:p.Offset+p.Size], whole[at.Offset:at.Offset+at.Size]) {
				t.Fatalf("stage %d: %s differs from unsplit training", stage, p.Name)
			}
		}
	}
}

func TestOneStepPerEpochWithPlainAveragingIsDataParallelTraining(t *testing.T) {
	const miners = 3
	n := newNetwork(t, testManifest(t, func(m *message.Manifest) {
		m.Rules.InnerOptimizer, m.Rules.Clip, m.Rules.WeightDecay = "sgd", 0, 0
	}), miners)
	u := newUnsplit(t, n)
	for range 4 {
		for i := range miners {
			c := u.stage.Config()
			sampleText().MicroBatch(n.manifest.Data.Seed, n.batch, c.Batch, c.SeqLen, u.tokens)
			u.stage.Loss(u.w, u.tokens, nil, u.tape)
			u.stage.Backward(u.w, u.tape, nil, u.g, nil)
			kernel.Add(u.sum, u.g)
			n.train(n.column(i))
		}
		n.merge()
		kernel.Axpy(u.w, u.sum, -float32(testRate)/miners)
		clear(u.sum)
	}
	for stage := range n.miners {
		for i, p := range n.miners[stage][0].stage.Params() {
			at := u.groups[stage][i]
			for k, x := range n.miners[stage][0].current.w[p.Offset : p.Offset+p.Size] {
				if y := u.w[at.Offset+k]; math.Abs(float64(x-y)) > 1e-5 {
					t.Fatalf("%s[%d] is %v, data-parallel training gives %v", p.Name, k, x, y)
				}
			}
		}
	}
}

func TestALogReplayedGivesItsHashesWhateverThreadsAndKernels(t *testing.T) {
	for _, edit := range []struct {
		name string
		f    func(*message.Manifest)
	}{
		{"stash, f32", func(m *message.Manifest) {}},
		{"recompute, bottleneck in bf16, int8 shares", func(m *message.Manifest) {
			m.Rules.Recompute, m.Rules.Share, m.Rules.MicroBatchesPerStep = true, "int8", 2
			m.Model.Boundary, m.Model.Wire = model.Bottleneck, "bf16"
		}},
	} {
		n := newNetwork(t, testManifest(t, edit.f), 2)
		private := map[*Miner][]byte{}
		var second int // first receipt of the second epoch
		for epoch := range 2 {
			n.overlap()
			for i := range 3 {
				n.train(n.column(i % 2))
			}
			n.merge()
			if epoch == 0 {
				for _, m := range slices.Concat(n.miners...) {
					private[m] = m.Save()
				}
				second = len(n.logs[n.miners[0][0]]) - 1
			}
		}
		defer func() { _ = kernel.Use(kernel.Variants()[0]) }()
		for _, variant := range kernel.Variants() {
			t.Run(edit.name+", "+variant, func(t *testing.T) {
				if err := kernel.Use(variant); err != nil {
					t.Fatal(err)
				}
				miners := slices.Concat(n.miners...)
				if variant != kernel.Variants()[0] {
					miners = n.column(0)
				}
				for _, m := range miners {
					n.replay(t, n.logs[m], nil)
				}
				m := n.miners[0][0]
				blob, err := m.checkpointAt(n, second)
				if err != nil {
					t.Fatal(err)
				}
				n.blobs[string(message.HashBytes(blob))] = blob
				n.replay(t, n.logs[m][second:], private[m])
			})
		}
	}
}

// checkpointAt replays a log as far as its INSTALL at i and uploads the checkpoint.
func (m *Miner) checkpointAt(n *network, i int) ([]byte, error) {
	fresh := newMiner(n.t, n.manifest, 99)
	r := &replay{miner: fresh, log: n.logs[m], blobs: n.blob, last: map[use]int{}}
	r.findUses()
	for k := range i + 1 {
		if _, err := r.redo(k, n.logs[m][k]); err != nil {
			return nil, err
		}
		r.dropUnused(k)
	}
	return fresh.checkpoint().encode()
}

// replay demands that a log holds on two threads.
func (n *network) replay(t *testing.T, log []*message.Receipt, private []byte) {
	t.Helper()
	e := kernel.New(2)
	defer e.Close()
	got, err := Replay(n.manifest, sampleText(), e, log, n.blob, private)
	if err != nil {
		t.Fatal(err)
	}
	if got.Problem != "" || got.Checked != len(log) {
		t.Fatalf("%d of %d receipts hold: %s", got.Checked, len(log), got.Problem)
	}
	want := 0
	for _, r := range log {
		if r.State != nil {
			want++
		}
	}
	if len(got.States) != want || want == 0 {
		t.Fatalf("%d commitments came of it, the log has %d", len(got.States), want)
	}
}

// overlap does work out of the ordinary: several micro-batches in flight, one cancelled, one redone by another miner,
// one gradient that is never acknowledged.
func (n *network) overlap() {
	n.t.Helper()
	a, b := n.miners[0][0], n.miners[0][1]
	first := n.batch
	n.batch += 3
	var wires [][]*message.BlobRef
	for i := range uint64(3) {
		r := n.do(a, &message.Task{Id: n.id(message.TaskKind_FORWARD, first+i, 0)})
		wires = append(wires, r.Outputs)
	}
	var gradients []*message.BlobRef
	for i := range uint64(3) {
		mid := n.do(n.miners[1][0], &message.Task{Id: n.id(message.TaskKind_FORWARD, first+i, 1), Inputs: wires[i]})
		loss := n.do(n.miners[2][0], &message.Task{Id: n.id(message.TaskKind_LOSS, first+i, 2), Inputs: mid.Outputs})
		n.ack(n.miners[2][0], loss)
		r := n.do(n.miners[1][0], &message.Task{Id: n.id(message.TaskKind_BACKWARD, first+i, 1), Inputs: loss.Outputs})
		n.ack(n.miners[1][0], r)
		gradients = append(gradients, r.Outputs[0])
		if i == 1 { // the slots of a are held while it steps
			n.train([]*Miner{a, n.miners[1][1], n.miners[2][1]})
			n.train([]*Miner{a, n.miners[1][1], n.miners[2][1]})
		}
	}
	back := func(m *Miner, i uint64, edit func(*message.Task)) *message.Receipt {
		task := &message.Task{Id: n.id(message.TaskKind_BACKWARD, first+i, 0), Inputs: gradients[i : i+1]}
		if edit != nil {
			edit(task)
		}
		return n.do(m, task)
	}
	n.ack(a, back(a, 1, nil))
	a.Drop(n.id(message.TaskKind_FORWARD, first, 0), 0)
	n.ack(b, back(b, 0, func(t *message.Task) { t.Attempt, t.Rerun = 1, true }))
	late := back(a, 2, nil)
	n.train([]*Miner{a, n.miners[1][1], n.miners[2][1]})
	a.Drop(late.Task, late.Attempt)
	back(b, 2, func(t *message.Task) { t.Attempt, t.Rerun, t.Passing = 1, true, true })
}

func TestReplayFindsTheFirstReceiptThatDoesNotHold(t *testing.T) {
	n := newNetwork(t, testManifest(t, nil), 1)
	for range 4 {
		n.train(n.column(0))
	}
	log := n.logs[n.miners[1][0]]
	at := slices.IndexFunc(log, func(r *message.Receipt) bool { return r.Task.Kind == message.TaskKind_STEP && r.State != nil })
	log[at].State = slices.Clone(log[at].State)
	log[at].State[0] ^= 1
	got, err := Replay(n.manifest, sampleText(), kernel.New(1), log, n.blob, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Checked != at || got.Problem == "" {
		t.Errorf("%d receipts hold (%q), want %d", got.Checked, got.Problem, at)
	}
}
