package kernel

// Softmax turns scores into probabilities in place. Row r has its first
// min(cols, first+r+1) columns visible (pass first = cols for no mask); the
// others become 0. lse, if not nil, receives the log of each row's sum of e^s.
//
// A row's maximum m, p = e^(s-m), its sum on 16 lanes, then p * (1/sum).
func (e *Engine) Softmax(s []float32, rows, cols, stride, first int, lse []float32) {
	e.rows(rowArgs{run: softmaxRows, n: rows, grain: 1, y: s, z: lse, cols: cols, stride: stride, first: first}, cols)
}

func softmaxRows(a *rowArgs, from, to int) {
	for r := from; r < to; r++ {
		row := a.y[r*a.stride:][:a.cols]
		visible := min(a.cols, a.first+r+1)
		s := row[:visible]
		m := rowMax(s)
		sum := expSum(s, m)
		scale(s, 1/sum)
		clear(row[visible:])
		if a.z != nil {
			a.z[r] = float32(float64(m) + Log(float64(sum)))
		}
	}
}

// SoftmaxBackward turns dp, the gradient of the probabilities p, into that of
// the unscaled scores, in place: (p * (dp - sum(p*dp))) * scale, over the
// visible columns, and 0 beyond. Both have the given stride.
func (e *Engine) SoftmaxBackward(dp, p []float32, rows, cols, stride, first int, scale float32) {
	e.rows(rowArgs{run: softmaxBackRows, n: rows, grain: 1, y: dp, p: p,
		cols: cols, stride: stride, first: first, scale: scale}, cols)
}

func softmaxBackRows(a *rowArgs, from, to int) {
	for r := from; r < to; r++ {
		row := a.y[r*a.stride:][:a.cols]
		visible := min(a.cols, a.first+r+1)
		dp, p := row[:visible], a.p[r*a.stride:][:visible]
		softmaxBack(dp, p, dot(p, dp), a.scale)
		clear(row[visible:])
	}
}
