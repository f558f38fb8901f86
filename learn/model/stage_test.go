package model_test

import (
	"math"
	"slices"
	"testing"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
)

var boundaries = []string{model.None, model.Bottleneck, model.SSN}

func TestTapesOfOneStageDoNotDisturbEachOther(t *testing.T) {
	for _, boundary := range boundaries {
		t.Run(boundary, func(t *testing.T) {
			p := newPipeline(t, odd(boundary, 1, 1), kernel.New(1))
			w, first, second := p.start(1), randomTokens(p.config, 1), randomTokens(p.config, 2)
			p.pass(w, first)
			want := slices.Clone(p.grads[0])

			p.loss(w, first)
			kept, dout := p.tapes[0], p.wireGrads[0]
			p.tapes[0] = p.stages[0].NewTape()
			p.stages[1].Backward(w[1], p.tapes[1], nil, p.grads[1], dout)
			kernelDout := slices.Clone(dout)
			p.pass(w, second)
			p.stages[0].Backward(w[0], kept, kernelDout, p.grads[0], nil)
			if !slices.Equal(p.grads[0], want) {
				t.Error("a micro-batch in between changed the gradient")
			}
		})
	}
}

func TestRecomputeEqualsAForwardWithTheNewWeights(t *testing.T) {
	for _, boundary := range boundaries {
		t.Run(boundary, func(t *testing.T) {
			p := newPipeline(t, odd(boundary, 1, 1, 1), kernel.New(1))
			before, after, tokens := p.start(1), p.start(2), randomTokens(p.config, 1)
			p.loss(before, tokens)
			for i, s := range p.stages {
				var dout, din []float32
				if i < 2 {
					dout = p.wires[i] // any numbers
				}
				if i > 0 {
					din = make([]float32, len(p.wires[i-1]))
				}
				s.Recompute(after[i], p.tapes[i])
				s.Backward(after[i], p.tapes[i], dout, p.grads[i], din)
				got := slices.Clone(p.grads[i])

				fresh, out := s.NewTape(), make([]float32, len(p.wires[0]))
				if i < 2 {
					s.Forward(after[i], tokens, p.wireInto(i), out, fresh)
				} else {
					s.Loss(after[i], tokens, p.wireInto(i), fresh)
				}
				s.Backward(after[i], fresh, dout, p.grads[i], din)
				if !slices.Equal(got, p.grads[i]) {
					t.Errorf("stage %d: the gradients differ", i)
				}
			}
		})
	}
}

func TestBackwardOverwritesWhatTheGradientsHeld(t *testing.T) {
	for _, boundary := range boundaries {
		t.Run(boundary, func(t *testing.T) {
			p := newPipeline(t, odd(boundary, 1, 1, 1), kernel.New(1))
			w, tokens := p.start(1), randomTokens(p.config, 1)
			p.pass(w, tokens)
			var want [][]float32
			for _, g := range append(p.grads, p.wireGrads...) {
				want = append(want, slices.Clone(g))
				for i := range g {
					g[i] = 1e6
				}
			}
			p.pass(w, tokens)
			for i, g := range append(p.grads, p.wireGrads...) {
				if !slices.Equal(g, want[i]) {
					t.Errorf("vector %d differs", i)
				}
			}
		})
	}
}

func TestALaterTokenChangesNoEarlierLogit(t *testing.T) {
	c := odd(model.None, 2)
	p := newPipeline(t, c, kernel.New(1))
	w, tokens := large(p, 0.15, 3), randomTokens(c, 4)
	before, after := make([]float32, c.Rows()*c.Vocab), make([]float32, c.Rows()*c.Vocab)
	p.stages[0].Logits(w[0], tokens, nil, before)
	const changed = 66 // in the second tile of queries of the first row
	tokens[changed] = (tokens[changed] + 1) % int32(c.Vocab)
	p.stages[0].Logits(w[0], tokens, nil, after)
	for r := range c.Rows() {
		same := slices.Equal(before[r*c.Vocab:(r+1)*c.Vocab], after[r*c.Vocab:(r+1)*c.Vocab])
		if expected := r < changed || r >= c.SeqLen; same != expected {
			t.Errorf("row %d: same logits %v, want %v", r, same, expected)
		}
	}
}

func TestNewStageRefusesWhatDoesNotExist(t *testing.T) {
	for _, index := range []int{-1, 2} {
		if _, err := model.NewStage(odd(model.None, 1, 1), index, kernel.New(1)); err == nil {
			t.Errorf("stage %d of 2 was made", index)
		}
	}
	if _, err := model.NewStage(odd("none", 0), 0, kernel.New(1)); err == nil {
		t.Error("a stage without blocks was made")
	}
}

func TestLongRowsOverALargeVocabulary(t *testing.T) {
	c := model.Config{
		Vocab: 50257, Width: 32, Heads: 2, KVHeads: 1, FFN: 64, SeqLen: 4096, Batch: 1,
		Cuts: []int{1}, RopeTheta: 10000, Boundary: model.None, Wire: "f32",
	}
	if kernel.Variant() == "portable" { // minutes: two chunks and three tiles do
		c.Vocab, c.SeqLen = 4100, 130
	}
	e := kernel.New(2)
	defer e.Close()
	p := newPipeline(t, c, e)
	loss := p.pass(p.start(1), randomTokens(c, 1))
	if want := math.Log(float64(c.Vocab)); math.Abs(loss-want) > 0.1 {
		t.Errorf("loss %v at the start, want about %v", loss, want)
	}
	if g := p.grads[0]; !kernel.AllFinite(g) || kernel.SumSquares(g) == 0 {
		t.Error("the gradient is not finite, or zero")
	}
}
