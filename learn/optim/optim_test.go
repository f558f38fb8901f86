package optim

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/tensor"
	"pgregory.net/rapid"
)

func TestNesterovAgreesWithGoldenVectors(t *testing.T) {
	dir := "testdata"
	if d := os.Getenv("IOTA_GOLDEN"); d != "" {
		if !filepath.IsAbs(d) { // from the repository's root
			d = filepath.Join("..", "..", d)
		}
		if _, err := os.Stat(d + "/outer.json"); err == nil {
			dir = d
		}
	}
	b, err := os.ReadFile(dir + "/outer.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Outer struct {
			MicroBatches []float64 `json:"micro_batches"`
			LearningRate float64   `json:"learning_rate"`
			Momentum     float64   `json:"momentum"`
			Epochs       []struct {
				Start          []float64   `json:"start"`
				Miners         [][]float64 `json:"miners"`
				PseudoGradient []float64   `json:"pseudo_gradient"`
				Momentum       []float64   `json:"momentum"`
				Result         []float64   `json:"result"`
			} `json:"epochs"`
		} `json:"outer"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	outer := file.Outer
	if len(outer.Epochs) == 0 {
		t.Fatal("no epochs")
	}
	theta, m := single(outer.Epochs[0].Start), make([]float32, len(outer.Epochs[0].Start))
	for i, epoch := range outer.Epochs {
		g := single(epoch.PseudoGradient)
		Nesterov(theta, m, theta, m, g, float32(outer.LearningRate), float32(outer.Momentum))
		near(t, m, epoch.Momentum, "momentum", i)
		near(t, theta, epoch.Result, "weights", i)
	}
}

func near(t *testing.T, got []float32, want []float64, what string, epoch int) {
	t.Helper()
	for i := range want {
		if d := math.Abs(float64(got[i]) - want[i]); d > 1e-6*(1+math.Abs(want[i])) {
			t.Errorf("epoch %d: %s[%d] is %v, want %v", epoch, what, i, got[i], want[i])
		}
	}
}

func single(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

func TestPlainAveragingIsTheWeightsMinusThePseudoGradient(t *testing.T) {
	theta, m := []float32{9, 9}, []float32{3, 4}
	Nesterov(theta, m, []float32{1, 2}, m, []float32{0.5, -0.25}, 1, 0)
	if theta[0] != 0.5 || theta[1] != 2.25 || m[0] != 0.5 || m[1] != -0.25 {
		t.Errorf("weights %v, momentum %v", theta, m)
	}
}

func TestNesterovIsItsDefinitionInEveryBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
			if i%7 == 0 {
				x[i] = []float32{0, float32(math.Copysign(0, -1)), 1e-45, -1e-40}[rng.IntN(4)]
			}
		}
		return x
	}
	for _, n := range []int{0, 1, 15, outerBlock, 2*outerBlock + 37} {
		for _, c := range [][2]float32{{0.9, 0.3}, {1, 0}, {0, 0.9}} {
			lr, mu := c[0], c[1]
			start, m, g := draw(n), draw(n), draw(n)
			theta, next := make([]float32, n), make([]float32, n)
			Nesterov(theta, next, start, m, g, lr, mu)
			inPlace, momentum := slices.Clone(start), slices.Clone(m)
			Nesterov(inPlace, momentum, inPlace, momentum, g, lr, mu)
			for i, x := range g {
				y := float32(mu*m[i]) + x
				z := x + float32(mu*y)
				w := start[i] - float32(lr*z)
				if !same(next[i], y) || !same(momentum[i], y) || !same(theta[i], w) || !same(inPlace[i], w) {
					t.Fatalf("element %d of %d: %v, %v in place, want %v", i, n, theta[i], inPlace[i], w)
				}
			}
		}
	}
}

func same(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

func BenchmarkNesterov(b *testing.B) {
	const size = 1 << 18
	var x [5][]float32
	for i := range x {
		x[i] = make([]float32, size)
	}
	b.SetBytes(4 * size)
	b.ReportAllocs()
	for b.Loop() {
		Nesterov(x[0], x[1], x[2], x[3], x[4], 0.9, 0.3)
	}
}

// engine serves all tests: the number of threads changes no result.
var engine = kernel.New(1)

// params are a matrix and a norm.
var params = []tensor.Param{
	{Name: "a", Shape: []int{2, 2}, Offset: 0, Size: 4},
	{Name: "b", Shape: []int{3}, Offset: 4, Size: 3},
}

func TestAdamWAgreesWithItsDefinitionInFloat64(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, lr := NewAdamW(), float32(rapid.Float64Range(1e-5, 1e-2).Draw(t, "lr"))
		draw := func(name string, from, to float64) []float32 {
			return single(rapid.SliceOfN(rapid.Float64Range(from, to), 7, 7).Draw(t, name))
		}
		w, m, v := draw("w", -1, 1), draw("m", -1, 1), draw("v", 1e-3, 1)
		steps := rapid.IntRange(1, 4).Draw(t, "steps")
		first := rapid.IntRange(1, 1000).Draw(t, "first")
		w64, m64, v64 := double(w), double(m), double(v)
		for step := first; step < first+steps; step++ {
			g := draw("g", -1, 1)
			a.Step(engine, params, w, g, m, v, lr, step)
			for i := range g {
				decay := a.Decay
				if i >= 4 {
					decay = 0
				}
				x := float64(g[i])
				m64[i] = a.Beta1*m64[i] + (1-a.Beta1)*x
				v64[i] = a.Beta2*v64[i] + (1-a.Beta2)*x*x
				mHat := m64[i] / (1 - math.Pow(a.Beta1, float64(step)))
				vHat := v64[i] / (1 - math.Pow(a.Beta2, float64(step)))
				w64[i] = w64[i]*(1-float64(lr)*decay) - float64(lr)*mHat/(math.Sqrt(vHat)+a.Eps)
			}
		}
		for i := range w {
			if d := math.Abs(float64(w[i]) - w64[i]); d > 1e-5*(1+math.Abs(w64[i])) {
				t.Fatalf("weight %d is %v, want %v", i, w[i], w64[i])
			}
		}
	})
}

func double(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func TestAScaledStepIsAStepOfTheScaledGradient(t *testing.T) {
	g, scaled := []float32{1, -2, 3, 0.1, 5, -6, 7}, make([]float32, 7)
	for i := range g {
		scaled[i] = g[i] * 0.3
	}
	w1, m1, v1 := make([]float32, 7), make([]float32, 7), make([]float32, 7)
	w2, m2, v2 := make([]float32, 7), make([]float32, 7), make([]float32, 7)
	NewAdamW().StepScaled(engine, params, w1, g, m1, v1, 0.3, 1e-3, 1)
	NewAdamW().Step(engine, params, w2, scaled, m2, v2, 1e-3, 1)
	for i := range g {
		if w1[i] != w2[i] || m1[i] != m2[i] || v1[i] != v2[i] {
			t.Errorf("element %d differs", i)
		}
	}
}

func TestClipShortensToTheLimitAndNeverLengthens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		norm := rapid.Float64Range(0, 1e6).Draw(t, "norm")
		limit := rapid.Float64Range(1e-3, 1e3).Draw(t, "limit")
		f := float64(Clip(norm, limit))
		if f > 1 || f < 0 || f*norm > limit*(1+1e-6) {
			t.Fatalf("factor %v", f)
		}
		if norm < limit-1e-5 && f != 1 {
			t.Fatalf("a norm of %v below the limit %v was scaled by %v", norm, limit, f)
		}
	})
}

func TestSquaredStageLimitsAddUpToTheWhole(t *testing.T) {
	total := 0.0
	for _, n := range []int{10, 20, 70} {
		limit := StageLimit(2, n, 100)
		total += limit * limit
	}
	if math.Abs(total-4) > 1e-12 {
		t.Errorf("limits squared add up to %v, want 4", total)
	}
}

func TestNormSquaredTakesEveryElementOnce(t *testing.T) {
	if got := NormSquared(params, []float32{1, 2, 3, 4, 5, 6, 7}); got != 140 {
		t.Errorf("got %v, want 140", got)
	}
}
