package kernel

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestCloseEndsTheHelpersAndTheEngineStartsAgain(t *testing.T) {
	defer goleak.VerifyNone(t)
	e := New(4)
	for range 3 {
		var hit [100]int
		e.For(len(hit), func(_ *Engine, i int) { hit[i]++ })
		for i, n := range hit {
			if n != 1 {
				t.Errorf("item %d ran %d times", i, n)
			}
		}
		e.Close()
	}
}

func TestAnEngineOfOneThreadStartsNoGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t)
	e := New(1) // not closed
	c := make([]float32, 256*256)
	e.MatMul(M(c, 256, 256), M(c, 256, 256), M(c, 256, 256))
	e.For(3, func(sub *Engine, _ int) {
		if sub.Threads() != 1 {
			t.Errorf("sub-engine has %d threads", sub.Threads())
		}
	})
}

func TestNothingIsAllocatedInTheSteadyState(t *testing.T) {
	const rows, d = 96, 512
	c := rowCase{rows: rows, d: d}
	for i := range c.in {
		c.in[i] = noise(rows*d, uint64(i))
	}
	x, y, z, inv, targets := c.in[0], c.in[1], c.in[2], make([]float32, rows), make([]int32, rows)
	product, l, rope := make([]float32, rows*rows), NewLossRows(rows), NewRope(8, 64, 10000)
	eachVariant(t, func(name string) {
		for _, threads := range []int{1, 3} {
			e := New(threads)
			item := func(sub *Engine, i int) { sub.RMSNorm(y[i*d:], x[i*d:], z[:d], inv[i:], 1, d) }
			work := func() {
				e.MatMul(M(product, rows, rows), M(x, rows, d), M(y, rows, d).T())
				e.MatMul(M(product, rows, rows), M(x, d, rows).T(), M(y, d, rows))
				e.RMSNorm(y, x, z[:d], inv, rows, d)
				e.RMSNormBackward(y, c.in[3][:d], x, x, z[:d], inv, rows, d)
				e.SiLUMul(y, x, z)
				e.SiLUMulBackward(c.in[3], c.in[4], y, x, z)
				e.Rotate(x, rows, 8, d/64, rope, 0.5, false)
				e.SoftmaxExp(c.in[5], inv, inv, rows, d, d, 3)
				e.ScaleRows(c.in[5], inv, rows, d, d)
				e.RowDots(inv, x, y, rows, d, d)
				e.SoftmaxBackward(c.in[5], y, inv, inv, rows, d, d, 3)
				l.Start()
				e.CrossEntropyChunk(l, z, rows, d, d, 0, targets)
				e.CrossEntropyGrad(l, y, rows, d, d, 0, targets, 1)
				e.Add(x, y)
				e.Scale(z, 1)
				e.SiLU(y, x)
				e.SiLUBackward(y, y, x)
				e.ReLU(y, x)
				e.ReLUBackward(y, y, x)
				e.AdamW(x, y, z, c.in[4], AdamWCoef{})
				_ = SumSquares(x)
				_ = AllFinite(x)
				e.For(rows, item)
			}
			if n := testing.AllocsPerRun(3, work); n != 0 {
				t.Errorf("%s, %d threads: %v allocations", name, threads, n)
			}
			e.Close()
		}
	})
}

func TestAViewBeyondItsSlicePanicsBeforeAnyWork(t *testing.T) {
	x := make([]float32, 100)
	for _, c := range []struct {
		claim   string
		c, a, b Mat
	}{
		{"short a", M(x, 10, 10), M(x[:99], 10, 10), M(x, 10, 10)},
		{"short b", M(x, 10, 10), M(x, 10, 10), M(x[:99], 10, 10).T()},
		{"short c", M(x[:99], 10, 10), M(x, 10, 10), M(x, 10, 10)},
		{"sizes that do not fit", M(x, 10, 10), M(x, 10, 9), M(x, 10, 10)},
		{"transposed c", M(x, 10, 10).T(), M(x, 10, 10), M(x, 10, 10)},
		{"stride below the width", M(x, 10, 10), View(x, 10, 10, 9), M(x, 10, 10)},
	} {
		t.Run(c.claim, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			New(1).MatMul(c.c, c.a, c.b)
		})
	}
}

func TestUseRefusesAnUnknownVariant(t *testing.T) {
	if err := Use("abacus"); err == nil {
		t.Error("no error")
	}
}

func TestFMAPeakIsPositive(t *testing.T) {
	if got := FMAPeak(1, time.Millisecond); !(got > 0) {
		t.Errorf("got %v GFLOP/s", got)
	}
}
