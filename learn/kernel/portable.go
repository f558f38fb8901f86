package kernel

import "math"

// The portable twins of the assembly: the definition of each element-wise
// kernel. No multiplication and addition may be fused, so every product is
// converted to float32 (or float64) before it is added.

// rowMaxPortable returns the largest x that is not NaN, or -Inf.
func rowMaxPortable(x []float32) float32 {
	var l [lanes]float32
	for i := range l {
		l[i] = negInf
	}
	for i, v := range x {
		if v > l[i%lanes] {
			l[i%lanes] = v
		}
	}
	return treeMax(&l)
}

// expSumPortable sets x = e^(x-shift) and returns its sum.
func expSumPortable(x []float32, shift float32) float32 {
	var l [lanes]float32
	for i, v := range x {
		v = Exp(v - shift)
		x[i] = v
		l[i%lanes] += v
	}
	return treeSum(&l)
}

// sumExpPortable returns the sum of e^(x-shift).
func sumExpPortable(x []float32, shift float32) float32 {
	var l [lanes]float32
	for i, v := range x {
		l[i%lanes] += Exp(v - shift)
	}
	return treeSum(&l)
}

// expScalePortable sets x = e^(x-shift) * s.
func expScalePortable(x []float32, shift, s float32) {
	for i, v := range x {
		x[i] = Exp(v-shift) * s
	}
}

func scalePortable(x []float32, s float32) {
	for i := range x {
		x[i] *= s
	}
}

func addPortable(y, x []float32) {
	for i, v := range x {
		y[i] += v
	}
}

func subPortable(y, x []float32) {
	for i, v := range x {
		y[i] -= v
	}
}

func axpyPortable(y, x []float32, s float32) {
	for i, v := range x {
		y[i] += float32(v * s)
	}
}

// dotPortable returns the sum of x*y.
func dotPortable(x, y []float32) float32 {
	var l [lanes]float32
	for i, v := range x {
		l[i%lanes] += float32(v * y[i])
	}
	return treeSum(&l)
}

// dot3Portable returns the sum of (x*y)*z.
func dot3Portable(x, y, z []float32) float32 {
	var l [lanes]float32
	for i, v := range x {
		l[i%lanes] += float32(float32(v*y[i]) * z[i])
	}
	return treeSum(&l)
}

// dot64Portable returns the sum of x*y in float64, where a product is exact.
func dot64Portable(x, y []float32) float64 {
	var l [lanes]float64
	for i, v := range x {
		l[i%lanes] += float64(float64(v) * float64(y[i]))
	}
	return treeSum(&l)
}

// notFinitePortable returns NaN if any x is NaN or infinite, else 0: x-x is +0
// for every other number.
func notFinitePortable(x []float32) float32 {
	sum := float32(0)
	for _, v := range x {
		sum += v - v
	}
	return sum
}

// normPortable sets y = (x*inv)*w.
func normPortable(y, x, w []float32, inv float32) {
	for i, v := range x {
		y[i] = float32(v*inv) * w[i]
	}
}

// normBackPortable adds (dy*w)*inv - x*c to dx.
func normBackPortable(dx, dy, w, x []float32, inv, c float32) {
	for i, v := range x {
		dx[i] += float32(float32(dy[i]*w[i])*inv) - float32(v*c)
	}
}

// normWeightPortable adds dy*(x*inv) to dw.
func normWeightPortable(dw, dy, x []float32, inv float32) {
	for i, v := range x {
		dw[i] += float32(dy[i] * float32(v*inv))
	}
}

func siluMulPortable(u, g, up []float32) {
	for i, v := range g {
		u[i] = float32(v*sigmoid(v)) * up[i]
	}
}

func siluMulBackPortable(dg, dup, du, g, up []float32) {
	for i, v := range g {
		s := sigmoid(v)
		d, p := du[i], up[i]
		dup[i] = d * float32(v*s)
		dg[i] = float32(d*p) * siluSlope(v, s)
	}
}

// siluSlope returns the derivative of x*sigmoid(x), given s = sigmoid(x).
func siluSlope(x, s float32) float32 {
	return s * (1 + float32(x*(1-s)))
}

func siluPortable(y, x []float32) {
	for i, v := range x {
		y[i] = v * sigmoid(v)
	}
}

func siluBackPortable(dx, dy, x []float32) {
	for i, v := range x {
		dx[i] = dy[i] * siluSlope(v, sigmoid(v))
	}
}

func reluPortable(y, x []float32) {
	for i, v := range x {
		if v <= 0 {
			v = 0
		}
		y[i] = v
	}
}

func reluBackPortable(dx, dy, x []float32) {
	for i, v := range x {
		d := dy[i]
		if v <= 0 {
			d = 0
		}
		dx[i] = d
	}
}

// softmaxBackPortable sets s to p = e^(s-lse), and dp = p*(dp-dot).
func softmaxBackPortable(dp, s []float32, lse, dot float32) {
	for i, v := range s {
		p := Exp(v - lse)
		s[i], dp[i] = p, p*(dp[i]-dot)
	}
}

// rotatePortable turns the pairs (a[i], b[i]), multiplied by before, by the
// angles with these cosines and sines, and multiplies them by after.
func rotatePortable(a, b, cos, sin []float32, before, after float32) {
	for i := range a {
		x, y := float32(a[i]*before), float32(b[i]*before)
		a[i] = (float32(x*cos[i]) - float32(y*sin[i])) * after
		b[i] = (float32(y*cos[i]) + float32(x*sin[i])) * after
	}
}

func adamWPortable(w, g, m, v []float32, c *[10]float32) {
	grad, beta1, rest1, beta2, rest2 := c[0], c[1], c[2], c[3], c[4]
	correct1, correct2, keep, lr, eps := c[5], c[6], c[7], c[8], c[9]
	for i, d := range g {
		d = float32(d * grad)
		m[i] = float32(beta1*m[i]) + float32(rest1*d)
		v[i] = float32(beta2*v[i]) + float32(float32(rest2*d)*d)
		root := float32(math.Sqrt(float64(float32(v[i] * correct2))))
		w[i] = float32(w[i]*keep) - float32(lr*(float32(m[i]*correct1)/(root+eps)))
	}
}
