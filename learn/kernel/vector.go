package kernel

// Add adds a to dst.
func Add(dst, a []float32) {
	dst = dst[:len(a)]
	n := whole(len(a))
	add(dst[:n], a[:n])
	addPortable(dst[n:], a[n:])
}

// Sub subtracts a from dst.
func Sub(dst, a []float32) {
	dst = dst[:len(a)]
	n := whole(len(a))
	sub(dst[:n], a[:n])
	subPortable(dst[n:], a[n:])
}

// Mul multiplies dst by a, element by element.
func Mul(dst, a []float32) {
	dst = dst[:len(a)]
	n := whole(len(a))
	mul(dst[:n], a[:n])
	mulPortable(dst[n:], a[n:])
}

// Axpy adds a*s to dst, the product rounded first.
func Axpy(dst, a []float32, s float32) {
	dst = dst[:len(a)]
	n := whole(len(a))
	axpy(dst[:n], a[:n], s)
	axpyPortable(dst[n:], a[n:], s)
}

// Scale multiplies dst by s.
func Scale(dst []float32, s float32) {
	n := whole(len(dst))
	scale(dst[:n], s)
	scalePortable(dst[n:], s)
}

// Dot returns the sum of a*b in float64, on 16 lanes joined by a halving tree.
func Dot(a, b []float32) float64 {
	b = b[:len(a)]
	n := whole(len(a))
	var l [lanes]float64
	dot64(&l, a[:n], b[:n])
	dot64Portable(&l, a[n:], b[n:])
	return treeSum64(&l)
}

// SumSquares returns Dot(x, x).
func SumSquares(x []float32) float64 { return Dot(x, x) }

// AllFinite reports whether x holds neither NaN nor infinity.
func AllFinite(x []float32) bool {
	n := whole(len(x))
	var l [lanes]float32
	notFinite(&l, x[:n])
	notFinitePortable(&l, x[n:])
	return l == [lanes]float32{} // NaN is not equal to 0
}

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
func AdamW(w, g, m, v []float32, c AdamWCoef) {
	w, m, v = w[:len(g)], m[:len(g)], v[:len(g)]
	n := whole(len(g))
	k := [10]float32{c.Grad, c.Beta1, c.Rest1, c.Beta2, c.Rest2, c.Correct1, c.Correct2, c.Keep, c.LR, c.Eps}
	adamW(w[:n], g[:n], m[:n], v[:n], &k)
	adamWPortable(w[n:], g[n:], m[n:], v[n:], &k)
}

// dot32 returns the float32 sum of x*y on 16 lanes.
func dot32(x, y []float32) float32 {
	n := whole(len(x))
	var l [lanes]float32
	dot(&l, x[:n], y[:n])
	dotPortable(&l, x[n:], y[n:])
	return treeSum(&l)
}
