package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// near fails unless |got - want| <= tolerance * scale.
func near(t *testing.T, what string, got, want, tolerance, scale float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*scale) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestMatMulIsCloseToFloat64(t *testing.T) {
	const m, n, k = 37, 45, 1100
	rng := rand.New(rand.NewPCG(1, 2))
	a, b, c := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
	fill(rng, a, 0)
	fill(rng, b, 0)
	New(1).MatMul(M(c, m, n), M(a, m, k), M(b, k, n))
	for i := range m {
		for j := range n {
			sum := 0.0
			for l := range k {
				sum += float64(a[i*k+l]) * float64(b[l*n+j])
			}
			near(t, "element", float64(c[i*n+j]), sum, 5e-6, math.Sqrt(k))
		}
	}
}

func TestFMARoundsOnce(t *testing.T) {
	// Rounding to float64 first would give 16777216.
	if got := fma32(97, 172961, float32(math.Ldexp(1, -40))); got != 16777218 {
		t.Errorf("got %v, want 16777218", got)
	}
	// The least subnormal: half of it plus a little rounds up, exactly half to even.
	tiny := math.Float32frombits(1)
	if got := fma32(tiny, 0.5, 0); got != 0 {
		t.Errorf("half of the least float32: got %v, want 0", got)
	}
	if got := fma32(tiny, 0.5+1.0/(1<<20), 0); got != tiny {
		t.Errorf("more than half of the least float32: got %v, want %v", got, tiny)
	}
}

func TestExpIsWithin2e7OfFloat64(t *testing.T) {
	for x := float32(-87); x < expHigh; x += 0.0017 {
		want := math.Exp(float64(x))
		near(t, "exp", float64(Exp(x)), want, 2e-7, want)
	}
	inf := float32(math.Inf(1))
	for _, c := range []struct{ x, want float32 }{
		{0, 1}, {-87.01, 0}, {-inf, 0}, {88.73, inf}, {inf, inf}, {float32(math.Copysign(0, -1)), 1},
	} {
		if got := Exp(c.x); got != c.want {
			t.Errorf("exp(%v): got %v, want %v", c.x, got, c.want)
		}
	}
	if x := Exp(float32(math.NaN())); x == x {
		t.Errorf("exp(NaN): got %v", x)
	}
}

func TestFloat64FunctionsAreCloseToTheStandardLibrary(t *testing.T) {
	for _, x := range []float64{1e-300, 0.1, 0.7071, 0.99, 1, 1.01, 2, 3.7, 1e10, 1e308} {
		near(t, "log", Log(x), math.Log(x), 3e-16, 1e-3+math.Abs(math.Log(x)))
	}
	for x := -690.0; x < 700; x += 0.377 {
		near(t, "exp", Exp64(x), math.Exp(x), 1e-15, math.Exp(x))
	}
	for x := -9000.0; x < 9000; x += 0.377 {
		near(t, "cos", Cos(x), math.Cos(x), 3e-16, 1)
		near(t, "sin", Sin(x), math.Sin(x), 3e-16, 1)
	}
	for y := -1.0; y < 1; y += 0.01 {
		near(t, "pow", Pow(10000, y), math.Pow(10000, y), 1e-14, math.Pow(10000, y))
	}
	near(t, "log of a subnormal", Log(5e-324), -744.4400719213812, 1e-15, 744) // some libraries are wrong here
	if !math.IsInf(Log(0), -1) || !math.IsNaN(Log(-1)) || !math.IsNaN(Log(math.NaN())) || !math.IsInf(Log(math.Inf(1)), 1) {
		t.Error("log of 0, -1, NaN or Inf is wrong")
	}
}

func TestRMSNormBackwardIsTheDerivative(t *testing.T) {
	const rows, d = 3, 37
	rng := rand.New(rand.NewPCG(3, 4))
	x, w, dy := make([]float32, rows*d), make([]float32, d), make([]float32, rows*d)
	fill(rng, x, 0)
	fill(rng, w, 0)
	fill(rng, dy, 0)
	loss := func(x, w []float64) float64 {
		total := 0.0
		for r := range rows {
			squares := 0.0
			for _, v := range x[r*d : (r+1)*d] {
				squares += v * v
			}
			for j := range d {
				total += float64(dy[r*d+j]) * x[r*d+j] * w[j] / math.Sqrt(squares/d+1e-5)
			}
		}
		return total
	}
	y, inv := make([]float32, rows*d), make([]float32, rows)
	dx, dw := make([]float32, rows*d), make([]float32, d)
	e := New(1)
	e.RMSNorm(y, x, w, inv, rows, d)
	e.RMSNormBackward(dx, dw, dy, x, w, inv, rows, d)
	x64, w64 := widen(x), widen(w)
	for i := range x64 {
		near(t, "dx", float64(dx[i]), slope(x64, i, func() float64 { return loss(x64, w64) }), 1e-5, 1)
	}
	for i := range w64 {
		near(t, "dw", float64(dw[i]), slope(w64, i, func() float64 { return loss(x64, w64) }), 1e-5, 1)
	}
}

func TestSoftmaxAndLossGradientsAreDerivatives(t *testing.T) {
	const rows, cols = 4, 21
	rng := rand.New(rand.NewPCG(5, 6))
	s, dp := make([]float32, rows*cols), make([]float32, rows*cols)
	fill(rng, s, 0)
	fill(rng, dp, 0)
	s64, targets := widen(s), []int32{3, 20, 0, 9}
	soft := func(r, seen int) (p []float64, lse float64) {
		sum := 0.0
		for _, v := range s64[r*cols:][:seen] {
			sum += math.Exp(v)
		}
		for _, v := range s64[r*cols:][:seen] {
			p = append(p, math.Exp(v)/sum)
		}
		return p, math.Log(sum)
	}
	mixed := func() (total float64) {
		for r := range rows {
			p, _ := soft(r, min(cols, 17+r+1))
			for j := range p {
				total += p[j] * float64(dp[r*cols+j])
			}
		}
		return total
	}
	entropy := func() (total float64) {
		for r := range rows {
			_, lse := soft(r, cols)
			total += lse - s64[r*cols+int(targets[r])]
		}
		return total / rows
	}
	p, ds, g := append([]float32(nil), s...), append([]float32(nil), dp...), append([]float32(nil), s...)
	lse, l, e := make([]float32, rows), NewLossRows(rows), New(1)
	inv, dots := make([]float32, rows), make([]float32, rows)
	e.SoftmaxExp(p, inv, lse, rows, cols, cols, 17)
	e.ScaleRows(p, inv, rows, cols, cols)
	e.RowDots(dots, p, ds, rows, cols, cols)
	e.SoftmaxBackward(append([]float32(nil), s...), ds, lse, dots, rows, cols, cols, 17)
	l.Start()
	e.CrossEntropyChunk(l, s, rows, cols, cols, 0, targets)
	e.CrossEntropyGrad(l, g, rows, cols, cols, 0, targets, 1.0/rows)
	near(t, "loss", l.Loss(rows), entropy(), 1e-6, 1)
	for i := range s64 {
		near(t, "softmax gradient", float64(ds[i]), slope(s64, i, mixed), 1e-5, 1)
		near(t, "loss gradient", float64(g[i]), slope(s64, i, entropy), 1e-5, 1)
	}
	for r := range rows {
		_, want := soft(r, min(cols, 17+r+1))
		near(t, "lse", float64(lse[r]), want, 1e-6, 1)
	}
}

func TestSiLUBackwardIsTheDerivative(t *testing.T) {
	x := []float32{-100, -30, -5, -1.2, 0, 0.3, 2, 40, 100}
	dx, ones := make([]float32, len(x)), make([]float32, len(x))
	for i := range ones {
		ones[i] = 1
	}
	New(1).SiLUBackward(dx, ones, x)
	x64 := widen(x)
	for i := range x {
		want := slope(x64, i, func() float64 { return x64[i] / (1 + math.Exp(-x64[i])) })
		near(t, "silu slope", float64(dx[i]), want, 1e-6, 1)
	}
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// slope returns the central difference of f by x[i].
func slope(x []float64, i int, f func() float64) float64 {
	const h = 1e-5
	was := x[i]
	x[i] = was + h
	above := f()
	x[i] = was - h
	below := f()
	x[i] = was
	return (above - below) / (2 * h)
}
