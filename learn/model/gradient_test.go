package model_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
)

// odd is a small model whose sizes are multiples of nothing, with more positions
// than a tile of queries.
func odd(boundary string, cuts ...int) model.Config {
	return model.Config{
		Vocab: 61, Width: 24, Heads: 6, KVHeads: 3, FFN: 35, SeqLen: 70, Batch: 2,
		Cuts: cuts, RopeTheta: 10000, Boundary: boundary, BoundaryWidth: 5, Wire: "f32",
	}
}

// large returns weights from N(0, std), so that gradients are not tiny and norm
// weights matter.
func large(p *pipeline, std float64, seed uint64) [][]float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := p.zeros()
	for stage := range w {
		for _, q := range p.config.Params(stage) {
			for i := range q.Size {
				x := std * rng.NormFloat64()
				if len(q.Shape) == 1 {
					x++
				}
				w[stage][q.Offset+i] = float32(x)
			}
		}
	}
	return w
}

func randomTokens(c model.Config, seed uint64) []int32 {
	rng := rand.New(rand.NewPCG(seed, 2))
	tokens := make([]int32, c.Batch*(c.SeqLen+1))
	for i := range tokens {
		tokens[i] = rng.Int32N(int32(c.Vocab))
	}
	return tokens
}

// TestGradientsAgreeWithFiniteDifferences moves half of the elements of every
// weight and every wire along their gradient g: the loss must change by |g|^2.
func TestGradientsAgreeWithFiniteDifferences(t *testing.T) {
	for _, c := range []model.Config{
		odd(model.None, 4), odd(model.None, 1, 2, 1),
		odd(model.Bottleneck, 1, 2, 1), odd(model.Bottleneck, 1, 1, 1), odd(model.Bottleneck, 2),
		odd(model.SSN, 1, 2, 1), odd(model.SSN, 2),
	} {
		t.Run(fmt.Sprint(c.Boundary, c.Cuts), func(t *testing.T) {
			p := newPipeline(t, c, kernel.New(1))
			w, tokens := large(p, 0.15, 3), randomTokens(c, 4)
			p.pass(w, tokens)
			rng := rand.New(rand.NewPCG(5, 5))
			for stage := range w {
				for _, q := range c.Params(stage) {
					x, g := w[stage][q.Offset:][:q.Size], p.grads[stage][q.Offset:][:q.Size]
					checkDirection(t, c, q.Name, x, g, rng, func() float64 { return p.loss(w, tokens) })
				}
			}
			p.loss(w, tokens)
			for j, wire := range p.wires {
				checkDirection(t, c, fmt.Sprint("wire ", j), wire, p.wireGrads[j], rng,
					func() float64 { return p.lossFrom(j+1, w, tokens) })
			}
		})
	}
}

// checkDirection compares slopes. With a boundary of
// relus, some of them switch within a step, so it is shorter and less exact.
func checkDirection(t *testing.T, c model.Config, name string, x, g []float32, rng *rand.Rand, loss func() float64) {
	t.Helper()
	direction, norm := make([]float64, len(g)), 0.0
	for i, v := range g {
		if rng.IntN(2) == 0 {
			direction[i] = float64(v)
			norm += float64(v) * float64(v)
		}
	}
	norm = math.Sqrt(norm)
	if norm == 0 {
		t.Errorf("%s: no gradient", name)
		return
	}
	at := func(step float64) float64 {
		kept := append([]float32(nil), x...)
		for i, d := range direction {
			x[i] += float32(step * d / norm)
		}
		l := loss()
		copy(x, kept)
		return l
	}
	step, tolerance := 5e-3, 2e-3
	if c.Boundary == model.Bottleneck && c.Stages() > 1 {
		step, tolerance = 5e-4, 1e-2
	}
	slope := (8*(at(step)-at(-step)) - (at(2*step) - at(-2*step))) / (12 * step)
	if math.Abs(slope-norm) > tolerance*norm+1e-4 {
		t.Errorf("%s: slope %v, want %v", name, slope, norm)
	}
}

func TestLossOverVocabularyChunksAgreesWithFiniteDifferences(t *testing.T) {
	c := odd(model.None, 1)
	c.Vocab, c.SeqLen = 9000, 3
	p := newPipeline(t, c, kernel.New(1))
	w, tokens := large(p, 0.15, 3), randomTokens(c, 4)
	loss := p.pass(w, tokens)
	rng := rand.New(rand.NewPCG(5, 5))
	for _, q := range c.Params(0) {
		x, g := w[0][q.Offset:][:q.Size], p.grads[0][q.Offset:][:q.Size]
		checkDirection(t, c, q.Name, x, g, rng, func() float64 { return p.loss(w, tokens) })
	}
	logits := make([]float32, c.Rows()*c.Vocab)
	p.stages[0].Logits(w[0], tokens, nil, logits)
	if want := meanCrossEntropy(c, logits, tokens); math.Abs(loss-want) > 1e-6*want {
		t.Errorf("loss %v, but the logits say %v", loss, want)
	}
}

// meanCrossEntropy is the loss of whole rows of logits in float64.
func meanCrossEntropy(c model.Config, logits []float32, tokens []int32) float64 {
	total := 0.0
	for r := range c.Rows() {
		row, sum := logits[r*c.Vocab:][:c.Vocab], 0.0
		for _, x := range row {
			sum += math.Exp(float64(x))
		}
		target := tokens[r/c.SeqLen*(c.SeqLen+1)+r%c.SeqLen+1]
		total += math.Log(sum) - float64(row[target])
	}
	return total / float64(c.Rows())
}
