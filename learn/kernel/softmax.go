package kernel

// The softmax of attention, in the form that needs the fewest passes: the
// forward pass mixes values with e^(s-max) and divides the result by their sum;
// the backward pass finds the probabilities from the logarithm of that sum, and
// the sum of p*dp, which is that of output times its gradient, is given. In all
// of it row r has its first min(cols, first+r+1) columns visible (pass
// first = cols for no mask); the others become 0.

// SoftmaxExp turns scores into e^(s-m) in place, with m the row's maximum. inv
// receives the reciprocal of each row's sum, on 16 lanes, and lse the logarithm
// of the sum of e^s.
func (e *Engine) SoftmaxExp(s, inv, lse []float32, rows, cols, stride, first int) {
	e.rows(rowArgs{run: softmaxExpRows, n: rows, grain: 1, y: s, z: lse[:rows], w: inv[:rows],
		cols: cols, stride: stride, first: first}, cols)
}

func softmaxExpRows(a *rowArgs, from, to int) {
	for r := from; r < to; r++ {
		row := a.y[r*a.stride:][:a.cols]
		visible := min(a.cols, a.first+r+1)
		m := rowMax(row[:visible])
		sum := expSum(row[:visible], m)
		clear(row[visible:])
		a.w[r], a.z[r] = 1/sum, float32(float64(m)+Log(float64(sum)))
	}
}

// SoftmaxBackward turns scores into probabilities p = e^(s-lse), and dp, the
// gradient of those, into that of the scores, p * (dp - dot), both in place. dot
// is each row's sum of p*dp.
func (e *Engine) SoftmaxBackward(s, dp, lse, dot []float32, rows, cols, stride, first int) {
	e.rows(rowArgs{run: softmaxBackRows, n: rows, grain: 1, y: s, p: dp, z: lse[:rows], w: dot[:rows],
		cols: cols, stride: stride, first: first}, cols)
}

func softmaxBackRows(a *rowArgs, from, to int) {
	for r := from; r < to; r++ {
		s, dp := a.y[r*a.stride:][:a.cols], a.p[r*a.stride:][:a.cols]
		visible := min(a.cols, a.first+r+1)
		softmaxBack(dp[:visible], s[:visible], a.z[r], a.w[r])
		clear(s[visible:])
		clear(dp[visible:])
	}
}

// ScaleRows multiplies the elements of row r by s[r].
func (e *Engine) ScaleRows(x, s []float32, rows, cols, stride int) {
	e.rows(rowArgs{run: scaleRows, n: rows, grain: 1, y: x, w: s[:rows], cols: cols, stride: stride}, cols)
}

func scaleRows(a *rowArgs, from, to int) {
	for r := from; r < to; r++ {
		scale(a.y[r*a.stride:][:a.cols], a.w[r])
	}
}

// RowDots sets out[r] to the float32 sum of x*y over row r, on 16 lanes.
func (e *Engine) RowDots(out, x, y []float32, rows, cols, stride int) {
	e.rows(rowArgs{run: dotRows, n: rows, grain: 1, y: out[:rows], x: x, p: y, cols: cols, stride: stride}, cols)
}

func dotRows(a *rowArgs, from, to int) {
	for r := from; r < to; r++ {
		a.y[r] = dot(a.x[r*a.stride:][:a.cols], a.p[r*a.stride:][:a.cols])
	}
}
