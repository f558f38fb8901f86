package kernel

import (
	"math"
	"time"

	"github.com/klauspost/cpuid/v2"
)

// runnable are the variants of this CPU, fastest first.
var runnable = detect()

// detect finds the variants. Supports also asks whether the operating system saves
// the wide registers.
func detect() []variant {
	has := cpuid.CPU.Supports
	switch {
	case !has(cpuid.AVX2, cpuid.FMA3):
		return []variant{portable}
	case !has(cpuid.AVX512F, cpuid.AVX512DQ, cpuid.AVX512VL, cpuid.AVX512BW):
		return []variant{avx2, portable}
	case !has(cpuid.AVX512BF16) || !dotIsExact():
		return []variant{avx512, avx2, portable}
	case dotIsFaster():
		return []variant{avx512bf16, avx512, avx2, portable}
	}
	return []variant{avx512, avx512bf16, avx2, portable}
}

// dotIsExact computes known answers of the dot product of bfloat16s, rounding
// included: products of all sizes, subnormals on all sides, and results next to
// 2^-126.
func dotIsExact() bool {
	const rows, cols, k = 12, 32, 32
	var a [rows * k]float32               // as it is packed by a transpose
	var b [k * cols]float32               // as it is copied
	var left, right [cols * k / 2]float32 // transpose writes beyond a strip
	var got, want [rows * cols]float32
	for i := range want {
		want[i] = math.Float32frombits(uint32(i%3)<<23 | uint32(i)*0x15551)
	}
	got = want
	copy(a[:], noise(len(a), 1))
	copy(b[:], noise(len(b), 2))
	for i := range b {
		b[i] *= float32(math.Ldexp(1, -i%128)) // with the subnormals of noise, down to below 2^-126
	}
	for i := range rows {
		for j := 0; j < k; j += 2 {
			dotRowBF16(want[i*cols:][:cols], [2]float32(a[i*k+j:]), b[j*cols:], b[(j+1)*cols:], 1)
		}
	}
	dotStrip12.pack(nil, left[:], M(a[:], rows, k).T(), 0, 1)
	dotPanel32.pack(nil, right[:], M(b[:], k, cols), 0, 1)
	dotTile12AVX512(&got[0], &got[0], cols*floatBytes, &left[0], &right[0], cols*floatBytes, k/2, tileAdd, math.MaxUint32)
	return got == want
}

// dotIsFaster measures whether the dot product, which does the work of two fused
// multiply-adds, takes less time than two; on some processors it takes four.
func dotIsFaster() bool {
	const rounds = 1000
	dot, fma := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range 5 {
		start := time.Now()
		peakDotAVX512(rounds)
		middle := time.Now()
		peakAVX512(rounds)
		dot, fma = min(dot, middle.Sub(start)), min(fma, time.Since(middle))
	}
	return dot < 2*fma
}
