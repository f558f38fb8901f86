// Package optim turns gradients into weights: a miner's inner step (clipping by
// the norm of a stage, AdamW), the outer Nesterov step after a merge, and the
// schedule of the learning rate.
//
// All of it is pure functions of slices with one defined result: norms are
// summed in float64 with the tensors in the order of their names, which is the
// order of a stage's flat vector; the rest is element by element.
package optim

import (
	"math"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/tensor"
)

// NormSquared returns the squared Euclidean norm of a stage's gradient: the sum
// of each tensor in float64, and the sum of those in the order of params.
func NormSquared(params []tensor.Param, g []float32) float64 {
	total := 0.0
	for _, p := range params {
		total += kernel.SumSquares(g[p.Offset : p.Offset+p.Size])
	}
	return total
}

// Clip returns the factor that shortens a gradient of the given norm to limit:
// min(1, limit/(norm + 1e-6)). A norm that is not finite gives 0 or NaN; screen
// gradients before.
func Clip(norm, limit float64) float32 {
	return float32(min(1, limit/(norm+1e-6)))
}

// StageLimit returns the norm that a stage of the given number of weights is
// clipped to, out of limit for all total weights: limit * sqrt(stage/total).
func StageLimit(limit float64, stage, total int) float64 {
	return limit * math.Sqrt(float64(stage)/float64(total))
}

// AdamW holds the numbers of the inner step.
type AdamW struct {
	Beta1, Beta2 float64
	Eps          float64
	Decay        float64 // of weights with two dimensions; norms do not decay
}

// NewAdamW returns the usual numbers: betas 0.9 and 0.95, eps 1e-8, decay 0.1.
func NewAdamW() AdamW { return AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1} }

// Step updates weights w and moments m and v in place; g is the clipped mean
// gradient. t is the number of this step, from 1.
func (a AdamW) Step(e *kernel.Engine, params []tensor.Param, w, g, m, v []float32, lr float32, t int) {
	a.StepScaled(e, params, w, g, m, v, 1, lr, t)
}

// StepScaled is Step with the gradient scale*g: clipping and the mean without a
// pass of their own. Each element's product is rounded to float32 first.
func (a AdamW) StepScaled(e *kernel.Engine, params []tensor.Param, w, g, m, v []float32, scale, lr float32, t int) {
	c := kernel.AdamWCoef{
		Grad:  scale,
		Beta1: float32(a.Beta1), Rest1: float32(1 - a.Beta1),
		Beta2: float32(a.Beta2), Rest2: float32(1 - a.Beta2),
		Correct1: float32(1 / (1 - power(a.Beta1, t))),
		Correct2: float32(1 / (1 - power(a.Beta2, t))),
		LR:       lr, Eps: float32(a.Eps),
	}
	keep := float32(1 - float64(float64(lr)*a.Decay))
	for _, p := range params {
		c.Keep = 1
		if len(p.Shape) == 2 {
			c.Keep = keep
		}
		from, to := p.Offset, p.Offset+p.Size
		e.AdamW(w[from:to], g[from:to], m[from:to], v[from:to], c)
	}
}

// outerBlock is the number of elements of an outer step that stay near the
// processor between its passes.
const outerBlock = 1024

// Nesterov takes the outer step from the weights at the start of the epoch and
// the momentum m with the mean pseudo-gradient g:
//
//	next = mu m + g;  theta = start - lr (g + mu next)
//
// Every product and sum is rounded to float32. theta may be start, next may be m.
func Nesterov(theta, next, start, m, g []float32, lr, mu float32) {
	var block [outerBlock]float32
	for from := 0; from < len(g); from += outerBlock {
		to := min(from+outerBlock, len(g))
		g, next, theta, step := g[from:to], next[from:to], theta[from:to], block[:to-from]
		copy(next, m[from:to])
		kernel.Scale(next, mu)
		kernel.Add(next, g)
		copy(step, g)
		kernel.Axpy(step, next, mu)
		copy(theta, start[from:to])
		kernel.Axpy(theta, step, -lr)
	}
}

// power returns x^n by repeated squaring, for bias correction: a fixed chain of
// float64 products.
func power(x float64, n int) float64 {
	result := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			result *= x
		}
		x *= x
	}
	return result
}
