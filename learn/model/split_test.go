package model_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/optim"
)

// byName returns the tensors of all stages.
func byName(c model.Config, flat [][]float32) map[string][]float32 {
	m := map[string][]float32{}
	for stage, x := range flat {
		for _, p := range c.Params(stage) {
			m[p.Name] = x[p.Offset : p.Offset+p.Size]
		}
	}
	return m
}

// trained takes a few inner steps, clipped by one factor, and returns the losses
// and the weights by name.
func trained(t *testing.T, c model.Config) ([]float64, map[string][]float32) {
	e := kernel.New(1)
	p := newPipeline(t, c, e)
	w, m, v := p.start(7), p.zeros(), p.zeros()
	var losses []float64
	for step := 1; step <= 3; step++ {
		losses = append(losses, p.pass(w, randomTokens(c, uint64(step))))
		for stage := range w {
			optim.NewAdamW().StepScaled(e, c.Params(stage), w[stage], p.grads[stage], m[stage], v[stage], 0.5, 1e-2, step)
		}
	}
	return losses, byName(c, w)
}

func TestASplitModelTrainsToTheSameBitsAsTheWhole(t *testing.T) {
	wholeLosses, whole := trained(t, odd(model.None, 4))
	for _, cuts := range [][]int{{1, 2, 1}, {3, 1}, {1, 1, 1, 1}} {
		t.Run(fmt.Sprint(cuts), func(t *testing.T) {
			losses, weights := trained(t, odd(model.None, cuts...))
			sameBits(t, losses, wholeLosses, weights, whole)
		})
	}
}

func sameBits(t *testing.T, losses, wantLosses []float64, weights, want map[string][]float32) {
	t.Helper()
	if !slices.Equal(losses, wantLosses) {
		t.Errorf("losses %v, want %v", losses, wantLosses)
	}
	if len(weights) != len(want) {
		t.Errorf("%d weights, want %d", len(weights), len(want))
	}
	for name, x := range want {
		if !slices.Equal(weights[name], x) {
			t.Errorf("%s differs", name)
		}
	}
}

// TestASubspaceNetworkEqualsTheModelItFactors builds the dense, unsplit model with
// W = U Z and embeddings U e + table, and compares loss and gradients.
func TestASubspaceNetworkEqualsTheModelItFactors(t *testing.T) {
	c := odd(model.SSN, 1, 2, 1)
	p := newPipeline(t, c, kernel.New(1))
	w, tokens := large(p, 0.08, 3), randomTokens(c, 4)
	u, table := p.stages[0].Buffers()

	dense := newPipeline(t, odd(model.None, 4), kernel.New(1))
	wDense := dense.zeros()
	factors, into := byName(c, w), byName(dense.config, wDense)
	for name, x := range factors {
		switch q := into[name]; {
		case name == "model.embed_tokens.weight":
			copy(q, product(x, c.BoundaryWidth, u, c.Width))
			kernel.Add(q, table)
		case q != nil:
			copy(q, x)
		default: // o_proj.factor or down_proj.factor
			weight := into[name[:len(name)-len("factor")]+"weight"]
			copy(weight, unfactor(u, c.Width, x, c.BoundaryWidth))
		}
	}

	loss, want := p.pass(w, tokens), dense.pass(wDense, tokens)
	if math.Abs(loss-want) > 1e-5*want {
		t.Errorf("loss %v, unsplit %v", loss, want)
	}
	got, g := byName(c, p.grads), byName(dense.config, dense.grads)
	for name, x := range got {
		expected := g[name]
		switch {
		case name == "model.embed_tokens.weight":
			expected = timesU(expected, u, c.Width, c.BoundaryWidth)
		case expected == nil:
			expected = factorGradient(u, c.Width, g[name[:len(name)-len("factor")]+"weight"], c.BoundaryWidth)
		}
		if e := relative(x, expected); !(e <= 1e-5) {
			t.Errorf("gradient of %s: relative difference %.2g", name, e)
		}
	}
}

func relative(got, want []float32) float64 {
	var difference, largest float64
	for i := range want {
		difference = max(difference, math.Abs(float64(got[i])-float64(want[i])))
		largest = max(largest, math.Abs(float64(want[i])))
	}
	return difference / largest
}

// product returns x U^T for rows of k numbers.
func product(x []float32, k int, u []float32, d int) []float32 {
	rows := len(x) / k
	y := make([]float32, rows*d)
	kernel.New(1).MatMul(kernel.M(y, rows, d), kernel.M(x, rows, k), kernel.M(u, d, k).T())
	return y
}

// timesU returns x U for rows of d numbers.
func timesU(x, u []float32, d, k int) []float32 {
	rows := len(x) / d
	y := make([]float32, rows*k)
	kernel.New(1).MatMul(kernel.M(y, rows, k), kernel.M(x, rows, d), kernel.M(u, d, k))
	return y
}

// unfactor returns U Z.
func unfactor(u []float32, d int, z []float32, k int) []float32 {
	n := len(z) / k
	y := make([]float32, d*n)
	kernel.New(1).MatMul(kernel.M(y, d, n), kernel.M(u, d, k), kernel.M(z, k, n))
	return y
}

// factorGradient returns U^T dW.
func factorGradient(u []float32, d int, dw []float32, k int) []float32 {
	n := len(dw) / d
	y := make([]float32, k*n)
	kernel.New(1).MatMul(kernel.M(y, k, n), kernel.M(u, d, k).T(), kernel.M(dw, d, n))
	return y
}
