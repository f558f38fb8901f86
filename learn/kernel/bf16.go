package kernel

import "math"

// The arithmetic of BF16: what AVX512-BF16's dot product does, in plain Go.

// minNormal is the smallest float32 that is not subnormal, 2^-126.
const minNormal = 0x1p-126

// roundBF16 returns x rounded to the nearest bfloat16, ties to even; a subnormal
// becomes a zero of its sign.
func roundBF16(x float32) float32 {
	bits := math.Float32bits(x)
	if x != x {
		return x
	}
	if bits&0x7f800000 == 0 {
		return math.Float32frombits(bits & 0x80000000)
	}
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

// fmaFlushed returns a*b + c rounded once to float32, for bfloat16s a and b; a
// subnormal c counts as zero, and a result that is below 2^-126 once it has 24
// bits becomes a zero of its sign.
func fmaFlushed(a, b, c float32) float32 {
	if math.Float32bits(c)&0x7f800000 == 0 {
		c = float32(math.Copysign(0, float64(c)))
	}
	r := fma32(a, b, c)
	if size := math.Abs(float64(r)); size > minNormal || r != r {
		return r
	}
	const up = 1 << 10 // 24 bits below 2^-126 are 24 bits again up here
	if s := math.Abs(float64(fma32(a*up, b, c*up))); s < minNormal*up {
		return float32(math.Copysign(0, float64(r)))
	}
	return r
}

// dotRowBF16 adds x[1]*odd[j*step] and then x[0]*even[j*step] to sum[j]; without
// odd, at the end of an odd k, zero times zero takes its place.
func dotRowBF16(sum []float32, x [2]float32, even, odd []float32, step int) {
	first, second := roundBF16(x[0]), roundBF16(x[1])
	for j := range sum {
		b := float32(0)
		if odd != nil {
			b = roundBF16(odd[j*step])
		}
		sum[j] = fmaFlushed(first, roundBF16(even[j*step]), fmaFlushed(second, b, sum[j]))
	}
}
