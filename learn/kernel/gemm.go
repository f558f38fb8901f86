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
	if a.Cols == 0 {
		p.empty()
		return
	}
	e.compute(p)
}

// small tells that the product is not worth more than one thread.
func (p product) small() bool { return p.c.Rows*p.c.Cols*p.a.Cols < 1<<20 }

// empty is the product of no terms.
func (p product) empty() {
	for i := 0; i < p.c.Rows && !p.add; i++ {
		clear(p.c.Data[i*p.c.Stride:][:p.c.Cols])
	}
}

// computeRows runs the portable product, row by row.
func (e *Engine) computeRows(p product) {
	e.mul.rows = p
	e.fork(p.c.Rows, func(e *Engine, _, i int) {
		p := e.mul.rows
		p.a, p.c = p.a.part(i, 0, 1, p.a.Cols), p.c.part(i, 0, 1, p.c.Cols)
		p.portable()
	})
	e.mul = running{}
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
