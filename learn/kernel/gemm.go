package kernel

import "fmt"

// blockK is the length of a k-block: part of the numerics, not a tuning knob.
const blockK = 512

// product is a matrix product c = a·b.
type product struct{ c, a, b Mat }

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
	p := product{c, a, b}
	threads := min(e.threads, c.Rows*c.Cols*a.Cols/minProduct)
	if threads <= 1 {
		p.compute(&e.pack)
		return
	}
	e.mul = p
	e.addSubs()
	e.fork(threads, func(e *Engine, index, count int) {
		e.mul.share(index, count).compute(&e.subs[index].pack)
	})
	e.mul = product{}
}

// minProduct is the number of multiply-adds that is worth a thread.
const minProduct = 1 << 20

// share returns the index-th of count parts of the product: some columns, or
// some rows if there are few columns. Each part packs its own operands.
func (p product) share(index, count int) product {
	const cols, rows = 32, 12 // the largest tile
	if p.c.Cols >= 4*cols*count || p.c.Cols > p.c.Rows {
		from, to := share(p.c.Cols, cols, index, count)
		p.b = p.b.part(0, from, p.b.Rows, to-from)
		p.c = p.c.part(0, from, p.c.Rows, to-from)
		return p
	}
	from, to := share(p.c.Rows, rows, index, count)
	p.a = p.a.part(from, 0, to-from, p.a.Cols)
	p.c = p.c.part(from, 0, to-from, p.c.Cols)
	return p
}

// portable computes the product in plain Go: the definition.
func (p product) portable() {
	aRow, aCol := p.a.steps()
	bRow, bCol := p.b.steps()
	var sum [64]float32
	for i := range p.c.Rows {
		for j0 := 0; j0 < p.c.Cols; j0 += len(sum) {
			n := min(len(sum), p.c.Cols-j0)
			out := p.c.Data[i*p.c.Stride+j0:][:n]
			clear(out)
			for k0 := 0; k0 < p.a.Cols; k0 += blockK {
				clear(sum[:])
				for k := k0; k < min(k0+blockK, p.a.Cols); k++ {
					x, b := p.a.Data[i*aRow+k*aCol], p.b.Data[k*bRow+j0*bCol:]
					if fuses {
						fmaRowFused(sum[:n], x, b, bCol)
					} else {
						fmaRow(sum[:n], x, b, bCol)
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
