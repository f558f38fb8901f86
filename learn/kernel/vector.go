package kernel

// Add adds a to dst.
func (e *Engine) Add(dst, a []float32) {
	e.rows(rowArgs{run: addPart, n: len(a), grain: lanes, y: dst[:len(a)], x: a}, 1)
}

func addPart(a *rowArgs, from, to int) { add(a.y[from:to], a.x[from:to]) }

// Scale multiplies dst by s.
func (e *Engine) Scale(dst []float32, s float32) {
	e.rows(rowArgs{run: scalePart, n: len(dst), grain: lanes, y: dst, scale: s}, 1)
}

func scalePart(a *rowArgs, from, to int) { scale(a.y[from:to], a.scale) }

// Add adds a to dst, on the calling thread only, as all that is not an Engine's.
func Add(dst, a []float32) { add(dst[:len(a)], a) }

// Sub subtracts a from dst.
func Sub(dst, a []float32) { sub(dst[:len(a)], a) }

// Axpy adds a*s to dst, the product rounded first.
func Axpy(dst, a []float32, s float32) { axpy(dst[:len(a)], a, s) }

// Scale multiplies dst by s.
func Scale(dst []float32, s float32) { scale(dst, s) }

// Dot returns the sum of a*b in float64, on 16 lanes joined by a halving tree.
func Dot(a, b []float32) float64 { return dot64(a, b[:len(a)]) }

// SumSquares returns Dot(x, x).
func SumSquares(x []float32) float64 { return Dot(x, x) }

// AllFinite reports whether x holds neither NaN nor infinity.
func AllFinite(x []float32) bool { return notFinite(x) == 0 } // NaN is not equal to 0

// AllFinite is the function AllFinite on all threads.
func (e *Engine) AllFinite(x []float32) bool {
	e.bad.Store(false)
	e.rows(rowArgs{run: finitePart, n: len(x), grain: lanes, x: x, bad: &e.bad}, 1)
	return !e.bad.Load()
}

func finitePart(a *rowArgs, from, to int) {
	if !AllFinite(a.x[from:to]) {
		a.bad.Store(true)
	}
}

// Copy copies src to dst, which is at least as long.
func (e *Engine) Copy(dst, src []float32) {
	n := len(src)
	e.rows(rowArgs{run: copyPart, n: n, grain: lanes, y: dst[:n], x: src}, 1)
}

func copyPart(a *rowArgs, from, to int) { copy(a.y[from:to], a.x[from:to]) }

// AdamWCoef holds the numbers of one AdamW step, each rounded once to float32.
type AdamWCoef struct {
	Grad               float32 // factor of the gradient: clipping, mean
	Beta1, Rest1       float32 // beta1, 1 - beta1
	Beta2, Rest2       float32 // beta2, 1 - beta2
	Correct1, Correct2 float32 // 1 / (1 - beta^t)
	Keep               float32 // 1 - lr decay, or 1 for weights without decay
	LR, Eps            float32
}

// AdamW updates weights w and moments m and v in place with gradient g:
//
//	g' = g Grad;  m = Beta1 m + Rest1 g';  v = Beta2 v + (Rest2 g') g'
//	w  = w Keep - LR (m Correct1 / (sqrt(v Correct2) + Eps))
func (e *Engine) AdamW(w, g, m, v []float32, c AdamWCoef) {
	n := len(g)
	e.rows(rowArgs{run: adamWPart, n: n, grain: lanes, y: w[:n], x: g, p: m[:n], q: v[:n],
		adamW: [10]float32{c.Grad, c.Beta1, c.Rest1, c.Beta2, c.Rest2, c.Correct1, c.Correct2, c.Keep, c.LR, c.Eps}}, 1)
}

func adamWPart(a *rowArgs, from, to int) {
	adamW(a.y[from:to], a.x[from:to], a.p[from:to], a.q[from:to], &a.adamW)
}
