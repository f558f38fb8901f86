package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// rowCase is a call of every element-wise function on one set of inputs. The
// number of elements is rows*d; each slice of in has that many.
type rowCase struct {
	rows, d int
	in      [6][]float32
	targets []int32
}

// drawRows draws a case.
func drawRows(t *rapid.T) rowCase {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	c := rowCase{d: rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(4000, 4100)).Draw(t, "d")}
	c.rows = rapid.IntRange(1, 20).Draw(t, "rows")
	if c.d > 100 {
		c.rows = min(c.rows, 6) // enough for several threads
	}
	for i := range c.in {
		c.in[i] = make([]float32, c.rows*c.d)
		fill(rng, c.in[i], kind)
		for j := range c.in[i] {
			c.in[i][j] *= float32(1 - 2*rng.IntN(2)) // both infinities
		}
	}
	for range c.rows {
		c.targets = append(c.targets, int32(rng.IntN(c.d+1)))
	}
	return c
}

// run calls every element-wise function, each on fresh copies, and returns all
// outputs by name.
func (c rowCase) run(e *Engine) map[string][]float32 {
	out := map[string][]float32{}
	c.call(e, out, func(name string, i int) []float32 {
		out[name] = append([]float32(nil), c.in[i]...)
		return out[name]
	})
	return out
}

// runInPlace calls every element-wise function on the inputs themselves.
func (c rowCase) runInPlace(e *Engine) {
	c.call(e, map[string][]float32{}, func(_ string, i int) []float32 { return c.in[i] })
}

// call calls every element-wise function on slices from use, which are copies of
// the i-th input or that itself.
func (c rowCase) call(e *Engine, out map[string][]float32, use func(name string, i int) []float32) {
	x, y, w, rows, d := c.in[0], c.in[1], c.in[2][:c.d], c.rows, c.d
	Add(use("add", 0), y)
	e.Add(use("add on all", 0), y)
	e.Copy(use("copy", 0), y)
	Sub(use("sub", 0), y)
	Axpy(use("axpy", 0), y, 0.3)
	Scale(use("scale", 0), 0.7)
	e.Scale(use("scale on all", 0), 0.7)
	e.AdamW(use("adam w", 0), y, use("adam m", 2), use("adam v", 3),
		AdamWCoef{0.9, 0.9, 0.1, 0.95, 0.05, 10, 20, 0.999, 0.001, 1e-8})
	finite := float32(0)
	if AllFinite(x) {
		finite = 1
	}
	if e.AllFinite(x) {
		finite += 2
	}
	out["finite"] = []float32{finite}
	for name, sum := range map[string]float64{"dot": Dot(x, y), "squares": SumSquares(x)} {
		bits := math.Float64bits(sum)
		out[name] = []float32{math.Float32frombits(uint32(bits >> 32)), math.Float32frombits(uint32(bits))}
	}

	inv := make([]float32, rows)
	e.RMSNorm(use("norm", 1), x, w, inv, rows, d)
	out["inv"] = inv
	e.RMSNormBackward(use("norm dx", 1), use("norm dw", 3)[:d], y, x, w, inv, rows, d)
	e.SiLU(use("silu", 0), x)
	e.SiLUBackward(use("silu dx", 0), y, x)
	e.ReLU(use("relu", 0), x)
	e.ReLUBackward(use("relu dx", 0), y, x)
	e.SiLUMul(use("silumul", 0), x, y)
	e.SiLUMulBackward(use("silumul dg", 0), use("silumul dup", 0), c.in[2], x, y)
	rope := NewRope(4, d/2*2, 10000)
	e.Rotate(use("rotate", 0), rows, 4, 1, rope, 0.3, false)
	e.Rotate(use("rotate back", 0), rows, 4, 1, rope, 0.3, true)

	lse, total, products := make([]float32, rows), make([]float32, rows), make([]float32, rows)
	e.SoftmaxExp(use("softmax", 0), total, lse, rows, d, d, d/2)
	e.ScaleRows(use("scaled rows", 0), y[:min(rows, len(y))], min(rows, len(y)), d, d)
	e.RowDots(products, x, y, rows, d, d)
	out["lse"], out["inverse sums"], out["row dots"] = lse, total, products
	e.SoftmaxBackward(use("softmax p", 0), use("softmax ds", 1), lse, products, rows, d, d, d/2)

	loss := NewLossRows(rows)
	loss.Start()
	g := use("loss dx", 0)
	half := (d + 1) / 2
	for first := 0; first < d; first += half {
		e.CrossEntropyChunk(loss, x[first:], rows, min(half, d-first), d, first, c.targets)
	}
	for first := 0; first < d; first += half {
		e.CrossEntropyGrad(loss, g[first:], rows, min(half, d-first), d, first, c.targets, 0.25)
	}
	out["loss"] = append([]float32{float32(loss.Loss(rows))}, append(loss.Max, loss.Sum...)...)
}

func TestElementWiseHasTheSameBitsInEveryVariantAndThreadCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawRows(t)
		var want map[string][]float32
		was := Variant()
		if err := Use("portable"); err != nil {
			t.Fatal(err)
		}
		want = c.run(New(1))
		if err := Use(was); err != nil {
			t.Fatal(err)
		}
		eachVariant(t, func(variant string) {
			for _, threads := range []int{1, 2, 3, 7} {
				e := New(threads)
				got := c.run(e)
				e.Close()
				for name := range want {
					if err := sameBits(want[name], got[name]); err != nil {
						t.Fatal(fmt.Errorf("%s, %d threads, %s: %w", variant, threads, name, err))
					}
				}
			}
		})
	})
}

func TestAScaledRotationIsARotationAndAScaleInEitherOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawRows(t)
		scale := rapid.Float32Range(-2, 2).Draw(t, "scale")
		rope, e := NewRope(3, c.d/2*2, 10000), New(1)
		eachVariant(t, func(variant string) {
			one, two := slices.Clone(c.in[0]), slices.Clone(c.in[0])
			e.Rotate(one, c.rows, 3, 1, rope, scale, false)
			e.Rotate(two, c.rows, 3, 1, rope, 1, false)
			n := c.rows * (c.d / 2 * 2)
			Scale(two[:n], scale)
			if err := sameBits(one, two); err != nil {
				t.Fatal(fmt.Errorf("%s, forward: %w", variant, err))
			}
			e.Rotate(one, c.rows, 3, 1, rope, scale, true)
			Scale(two[:n], scale)
			e.Rotate(two, c.rows, 3, 1, rope, 1, true)
			if err := sameBits(one, two); err != nil {
				t.Fatal(fmt.Errorf("%s, inverse: %w", variant, err))
			}
		})
	})
}
