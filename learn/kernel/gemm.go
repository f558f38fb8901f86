package kernel

import "fmt"

// product is a matrix product c = a·b, or c = c + a·b.
type product struct {
	c, a, b Mat
	add     bool
	bf16    bool
}

// MatMul sets c = a·b. The operands may be transposed and strided views; c must
// not be transposed and must not overlap them. Each element of c is one chain of
// float32 fused multiply-adds in increasing k, from +0. BF16 takes pairs along k
// instead, the odd element first; docs/numerics.md says how it rounds.
func (e *Engine) MatMul(c, a, b Mat) { e.multiply(product{c, a, b, false, e.numerics == BF16}) }

// MatMulAdd sets c = c + a·b: each element's chain starts from the element of c.
func (e *Engine) MatMulAdd(c, a, b Mat) { e.multiply(product{c, a, b, true, e.numerics == BF16}) }

func (e *Engine) multiply(p product) {
	c, a, b := p.c, p.a, p.b
	if a.Rows != c.Rows || b.Cols != c.Cols || a.Cols != b.Rows || c.Trans {
		panic(fmt.Sprintf("kernel: product of %d x %d and %d x %d into %d x %d (transposed: %v)",
			a.Rows, a.Cols, b.Rows, b.Cols, c.Rows, c.Cols, c.Trans))
	}
	c.check("c")
	a.check("a")
	b.check("b")
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
	if p.c.Cols == 0 {
		return
	}
	aRow, aCol := p.a.steps()
	bRow, bCol := p.b.steps()
	for i := range p.c.Rows {
		sum := p.c.Data[i*p.c.Stride:][:p.c.Cols]
		if !p.add {
			clear(sum)
		}
		for k := 0; k < p.a.Cols; k++ {
			x, b := p.a.Data[i*aRow+k*aCol], p.b.Data[k*bRow:]
			switch {
			case p.bf16 && k+1 < p.a.Cols:
				dotRowBF16(sum, [2]float32{x, p.a.Data[i*aRow+(k+1)*aCol]}, b, b[bRow:], bCol)
				k++
			case p.bf16:
				dotRowBF16(sum, [2]float32{x, 0}, b, nil, bCol)
			case fuses:
				fmaRowFused(sum, x, b, bCol)
			default:
				fmaRow(sum, x, b, bCol)
			}
		}
	}
}
