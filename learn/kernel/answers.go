package kernel

// answers covers every kernel; the hashes are those of the portable variant, and
// part of what Numerics means. A changed hash is a new name.
var answers = []answer{
	{"a b", 0xf83ebf1c785c7f88, func(e *Engine, in [5][]float32) [][]float32 { return checkProduct(e, false, false) }},
	{"a b^T", 0x2eb0b76239bf7375, func(e *Engine, in [5][]float32) [][]float32 { return checkProduct(e, false, true) }},
	{"a^T b", 0xb71b0438e00b7a4d, func(e *Engine, in [5][]float32) [][]float32 { return checkProduct(e, true, false) }},
	{"a^T b^T", 0x7a34215cc0b7b168, func(e *Engine, in [5][]float32) [][]float32 { return checkProduct(e, true, true) }},
	{"vector", 0xef2386ef90094063, func(e *Engine, in [5][]float32) [][]float32 {
		Add(in[0], in[1])
		Sub(in[0], in[3])
		Scale(in[1], 0.3)
		Axpy(in[0], in[1], -0.7)
		return in[:2]
	}},
	{"dot", 0x2f940e2f5e60657b, func(e *Engine, in [5][]float32) [][]float32 {
		ok := float32(0)
		if AllFinite(in[0]) {
			ok = 1
		}
		return [][]float32{{float32(Dot(in[0], in[1])), float32(SumSquares(in[2])), ok}}
	}},
	{"adamw", 0x5ca2be5603eff37a, func(e *Engine, in [5][]float32) [][]float32 {
		for i, v := range in[3] {
			in[3][i] = v * v
		}
		e.AdamW(in[0], in[1], in[2], in[3], AdamWCoef{0.9, 0.9, 0.1, 0.95, 0.05, 10, 20, 0.999, 0.001, 1e-8})
		return in[:4]
	}},
	{"rmsnorm", 0x64adaab67a8e45f3, func(e *Engine, in [5][]float32) [][]float32 {
		w, inv := in[2][:checkCols], make([]float32, checkRows)
		y := make([]float32, len(in[0]))
		e.RMSNorm(y, in[0], w, inv, checkRows, checkCols)
		e.RMSNormBackward(in[3], in[4][:checkCols], in[1], in[0], w, inv, checkRows, checkCols)
		return [][]float32{y, inv, in[3], in[4]}
	}},
	{"silu", 0x9c5df5c4c6cd63c0, func(e *Engine, in [5][]float32) [][]float32 {
		Scale(in[0], 25) // to both ends of the exponential
		e.SiLU(in[1], in[0])
		e.SiLUBackward(in[2], in[2], in[0])
		return in[1:3]
	}},
	{"silu mul", 0x95402fffd05d0271, func(e *Engine, in [5][]float32) [][]float32 {
		u := make([]float32, len(in[0]))
		e.SiLUMul(u, in[0], in[1])
		e.SiLUMulBackward(in[2], in[3], in[4], in[0], in[1])
		return [][]float32{u, in[2], in[3]}
	}},
	{"relu", 0x1521f03ca89fdebb, func(e *Engine, in [5][]float32) [][]float32 {
		e.ReLU(in[0], in[1])
		e.ReLUBackward(in[2], in[3], in[1])
		return [][]float32{in[0], in[2]}
	}},
	{"rotate", 0xbda203e360e670b1, func(e *Engine, in [5][]float32) [][]float32 {
		r := NewRope(1000, checkCols, 10000)
		e.Rotate(in[0], checkRows, 4, 1, r, 1, false)
		e.Rotate(in[1], checkRows, 4, 1, r, 1, true)
		return [][]float32{in[0], in[1], r.cos, r.sin}
	}},
	{"softmax", 0x40b9410bfe2a750f, func(e *Engine, in [5][]float32) [][]float32 {
		inv, lse, dot := make([]float32, checkRows), make([]float32, checkRows), make([]float32, checkRows)
		e.SoftmaxExp(in[0], inv, lse, checkRows, checkCols, checkCols, checkCols/2)
		e.ScaleRows(in[0], inv, checkRows, checkCols, checkCols)
		e.RowDots(dot, in[0], in[1], checkRows, checkCols, checkCols)
		e.SoftmaxBackward(in[2], in[1], lse, dot, checkRows, checkCols, checkCols, checkCols/2)
		return [][]float32{in[0], inv, lse, dot, in[1], in[2]}
	}},
	{"cross entropy", 0xc7ccc16a23a23f1b, func(e *Engine, in [5][]float32) [][]float32 {
		const half = checkCols / 2
		l, targets := NewLossRows(checkRows), []int32{0, 38, 39, 77, 50, 7}
		l.Start()
		for first := 0; first < checkCols; first += half {
			e.CrossEntropyChunk(l, in[0][first:], checkRows, half, checkCols, first, targets)
		}
		for first := 0; first < checkCols; first += half {
			e.CrossEntropyGrad(l, in[0][first:], checkRows, half, checkCols, first, targets, 0.25)
		}
		return [][]float32{l.Max, l.Sum, l.Target, {float32(l.Loss(checkRows))}, in[0]}
	}},
	{"bf16 a b", 0x4e248737f65063e4, func(_ *Engine, in [5][]float32) [][]float32 { return checkProduct(NewFor(BF16, 1), false, false) }},
}

// checkProduct multiplies matrices of awkward sizes.
func checkProduct(e *Engine, transA, transB bool) [][]float32 {
	const m, n, k = 27, 53, 530
	a, b, c := M(noise(m*k, 1), m, k), M(noise(k*n, 2), k, n), make([]float32, m*n)
	if transA {
		a = M(a.Data, k, m).T()
	}
	if transB {
		b = M(b.Data, n, k).T()
	}
	e.MatMul(M(c, m, n), a, b)
	return [][]float32{c}
}
