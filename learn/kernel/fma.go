package kernel

import "math"

// fma32 returns a*b + c rounded once to float32, as a fused multiply-add does.
//
// The product is exact in float64 (24 + 24 bits). Rounding its sum with c first
// to float64 and then to float32 differs from rounding once only when the
// float64 sum lies on the midpoint of two float32s, or below their normal
// range, where midpoints have other bits; then fmaOdd decides.
func fma32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	bits := math.Float64bits(s)
	if bits&0x1fffffff == 0x10000000 || bits<<1 < 0x7020000000000000 {
		return fmaOdd(p, float64(c), s)
	}
	return float32(s)
}

// fmaOdd rounds p + c, whose float64 sum is s, to odd: of the two float64
// neighbours of an inexact sum it takes the one with an odd last bit, which
// lies on the right side of every float32 midpoint.
func fmaOdd(p, c, s float64) float32 {
	t := s - p
	err := (p - (s - t)) + (c - t) // exactly p + c - s
	bits := math.Float64bits(s)
	if bits&1 == 0 && (err > 0 || err < 0) {
		if (err > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
	}
	return float32(math.Float64frombits(bits))
}

// fmaRow sets sum[j] = fma(x, b[j*step], sum[j]).
func fmaRow(sum []float32, x float32, b []float32, step int) {
	for j := range sum {
		sum[j] = fma32(x, b[j*step], sum[j])
	}
}

// fmaRowFused is fmaRow where the compiler fuses, as it may; fuses tells. It
// must not be inlined, so that the tested code is the code that runs.
//
//go:noinline
func fmaRowFused(sum []float32, x float32, b []float32, step int) {
	for j := range sum {
		sum[j] = x*b[j*step] + sum[j]
	}
}

// fuses reports whether this build's fmaRowFused rounds once, as it does on arm64.
var fuses = func() bool {
	sum := []float32{1.0 / (1 << 40)}
	fmaRowFused(sum, 97, []float32{172961}, 1)
	return sum[0] == 16777218
}()
