package kernel

import "math"

// normEps is the epsilon under the root of RMSNorm.
const normEps float32 = 1e-5

// RMSNorm sets y = x * inv * w for each of rows rows of d elements, and inv to
// 1/sqrt(mean(x^2) + 1e-5), which the backward needs.
func (e *Engine) RMSNorm(y, x, w, inv []float32, rows, d int) {
	e.rows(rowArgs{run: normRows, n: rows, grain: 1, y: y[:rows*d], x: x[:rows*d], w: w[:d], z: inv[:rows], cols: d}, d)
}

func normRows(a *rowArgs, from, to int) {
	d := a.cols
	for r := from; r < to; r++ {
		x, y := a.x[r*d:][:d], a.y[r*d:][:d]
		mean := dot(x, x) / float32(d)
		inv := 1 / float32(math.Sqrt(float64(mean+normEps)))
		norm(y, x, a.w, inv)
		a.z[r] = inv
	}
}

// RMSNormBackward adds the input's gradient to dx and the weight's to dw, the
// latter row by row in increasing order. inv is what RMSNorm saved.
func (e *Engine) RMSNormBackward(dx, dw, dy, x, w, inv []float32, rows, d int) {
	a := rowArgs{run: normBackRows, n: rows, grain: 1, y: dx[:rows*d], w: w[:d], q: dw[:d],
		p: dy[:rows*d], x: x[:rows*d], z: inv[:rows], cols: d, rows: rows}
	e.rows(a, d)
	a.run, a.n, a.grain = normWeightColumns, d, lanes
	e.rows(a, rows)
}

func normBackRows(a *rowArgs, from, to int) {
	d := a.cols
	for r := from; r < to; r++ {
		dx, dy, x, inv := a.y[r*d:][:d], a.p[r*d:][:d], a.x[r*d:][:d], a.z[r]
		c := float32(dot3(dy, a.w, x)*inv) * inv * inv / float32(d)
		normBack(dx, dy, a.w, x, inv, c)
	}
}

// normWeightColumns adds to columns [from, to) of dw, over all rows.
func normWeightColumns(a *rowArgs, from, to int) {
	for r := range a.rows {
		row := r * a.cols
		normWeight(a.q[from:to], a.p[row+from:row+to], a.x[row+from:row+to], a.z[r])
	}
}
