package kernel

// Cross entropy in chunks of the vocabulary, so that no more than one chunk of
// logits is in memory: Start, then Chunk for each chunk in increasing order,
// then Loss; for the gradient, Grad for each chunk of logits computed again.

// LossRows is the state of a cross entropy, one element of each slice per row.
type LossRows struct {
	Max    []float32 // largest logit so far
	Sum    []float32 // sum of e^(logit - Max) so far
	Target []float32 // logit of the target token
}

// NewLossRows returns the state for up to rows rows.
func NewLossRows(rows int) *LossRows {
	return &LossRows{make([]float32, rows), make([]float32, rows), make([]float32, rows)}
}

// Start forgets all chunks.
func (l *LossRows) Start() {
	for i := range l.Max {
		l.Max[i] = negInf
	}
	clear(l.Sum)
	clear(l.Target)
}

// CrossEntropyChunk takes in logits of the tokens [first, first+cols), a matrix
// of rows x cols with the given stride; targets has one token per row:
//
//	m = max(Max, chunk);  Sum = Sum e^(Max-m) + sum of e^(x-m) on 16 lanes;  Max = m
func (e *Engine) CrossEntropyChunk(l *LossRows, logits []float32, rows, cols, stride, first int, targets []int32) {
	e.rows(rowArgs{run: lossRows, n: rows, grain: 1, y: l.Max[:rows], z: l.Sum[:rows], w: l.Target[:rows],
		x: logits, ints: targets[:rows], cols: cols, stride: stride, first: first}, cols)
}

func lossRows(a *rowArgs, from, to int) {
	for r := from; r < to; r++ {
		x := a.x[r*a.stride:][:a.cols]
		old, m := a.y[r], rowMax(x)
		if old > m {
			m = old
		}
		before := float32(0)
		if a.z[r] != 0 { // not the first chunk
			before = a.z[r] * Exp(old-m)
		}
		a.y[r], a.z[r] = m, float32(before)+sumExp(x, m)
		if t := int(a.ints[r]) - a.first; t >= 0 && t < a.cols {
			a.w[r] = x[t]
		}
	}
}

// Loss returns the mean over rows of log(Sum) + Max - Target in nats, summed in
// float64 in increasing row order.
func (l *LossRows) Loss(rows int) float64 {
	total := 0.0
	for r := range rows {
		total += Log(float64(l.Sum[r])) + float64(l.Max[r]) - float64(l.Target[r])
	}
	return total / float64(rows)
}

// CrossEntropyGrad turns a chunk of logits into the gradient of scale times the
// sum of the rows' losses, in place: e^(x-Max) * (scale/Sum), minus scale at the
// target.
func (e *Engine) CrossEntropyGrad(l *LossRows, logits []float32, rows, cols, stride, first int, targets []int32, scale float32) {
	e.rows(rowArgs{run: lossGradRows, n: rows, grain: 1, y: logits, z: l.Sum[:rows], w: l.Max[:rows],
		ints: targets[:rows], cols: cols, stride: stride, first: first, scale: scale}, cols)
}

func lossGradRows(a *rowArgs, from, to int) {
	for r := from; r < to; r++ {
		x, m, s := a.y[r*a.stride:][:a.cols], a.w[r], a.scale/a.z[r]
		expScale(x, m, s)
		if t := int(a.ints[r]) - a.first; t >= 0 && t < a.cols {
			x[t] -= a.scale
		}
	}
}
