package kernel

import "fmt"

// blockK is the length of a k-block: part of the numerics, not a tuning knob.
const blockK = 512

// product holds the arguments of a running MatMul.
type product struct{ c, a, b Mat }

// scratch is an engine's memory for packed operands; it grows and is kept.
type scratch struct{ a, b []float32 }

// MatMul sets c = a·b. The operands may be transposed and strided views; c must
// not be transposed and must not overlap them. Each element of c is one chain
// of float32 fused multiply-adds in increasing k, from +0, per block of 512;
// block results are added in order.
func (e *Engine) MatMul(c, a, b Mat) {
	if a.Rows != c.Rows || b.Cols != c.Cols || a.Cols != b.Rows || c.Trans {
		panic(fmt.Sprintf("kernel: product of %d x %d and %d x %d into %d x %d (transposed: %v)",
			a.Rows, a.Cols, b.Rows, b.Cols, c.Rows, c.Cols, c.Trans))
	}
	c.check("c")
	a.check("a")
	b.check("b")
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	e.mul = product{c, a, b}
	threads := min(e.threads, c.Rows, max(1, c.Rows*c.Cols*a.Cols>>16))
	e.fork(threads, func(e *Engine, index, count int) {
		from, to := share(e.mul.c.Rows, 1, index, count)
		e.mul.portable(from, to)
	})
	e.mul = product{}
}

// portable computes rows [from, to) of the product in plain Go.
func (p *product) portable(from, to int) {
	aRow, aCol := p.a.steps()
	bRow, bCol := p.b.steps()
	var sum [64]float32
	for i := from; i < to; i++ {
		for j0 := 0; j0 < p.c.Cols; j0 += len(sum) {
			n := min(len(sum), p.c.Cols-j0)
			out := p.c.Data[i*p.c.Stride+j0:][:n]
			clear(out)
			for k0 := 0; k0 < p.a.Cols; k0 += blockK {
				clear(sum[:])
				for k := k0; k < min(k0+blockK, p.a.Cols); k++ {
					x := p.a.Data[i*aRow+k*aCol]
					at := k*bRow + j0*bCol
					for j := range sum[:n] {
						sum[j] = fma32(x, p.b.Data[at+j*bCol], sum[j])
					}
				}
				if k0 == 0 {
					copy(out, sum[:n])
					continue
				}
				for j := range out {
					out[j] += sum[j]
				}
			}
		}
	}
}
