package kernel

import "math"

// Constants of Exp. With n = round(x log2 e) and r = x - n ln 2, e^x is
// 2^n (1 + r + r^2 Q(r)); Q is a minimax polynomial, relative error 3.2e-9.
const (
	expLow   float32 = -87      // below it the result is 0, so it is never subnormal
	expHigh  float32 = 88.72283 // above it the result is +Inf
	log2e    float32 = 1.44269504
	ln2High  float32 = 0.693359375 // 9 significant bits: n*ln2High is exact
	ln2Low   float32 = -2.12194440e-4
	expMagic float32 = 12582912 // 1.5 * 2^23: adding it rounds to an integer
	expQ0    float32 = 0.49999994
	expQ1    float32 = 0.16666518
	expQ2    float32 = 0.041668423
	expQ3    float32 = 0.008369064
	expQ4    float32 = 0.0013813878
)

// Exp returns e^x with a relative error of less than 2e-7: 0 below -87, +Inf
// above 88.72283, NaN for NaN.
func Exp(x float32) float32 {
	switch {
	case x < expLow:
		return 0
	case x > expHigh:
		return float32(math.Inf(1))
	case x != x:
		return x
	}
	t := float32(x*log2e) + expMagic
	n := t - expMagic
	r := x - float32(n*ln2High)
	r -= float32(n * ln2Low)
	q := float32(expQ4*r) + expQ3
	q = float32(q*r) + expQ2
	q = float32(q*r) + expQ1
	q = float32(q*r) + expQ0
	q = float32(q*float32(r*r)) + r
	q += 1
	return math.Float32frombits(math.Float32bits(q) + math.Float32bits(t)<<23)
}

// sigmoid returns 1/(1+e^-x).
func sigmoid(x float32) float32 { return 1 / (1 + Exp(-x)) }
