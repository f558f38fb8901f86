package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// shapes are those of a test stage, of a square, and of attention heads.
var shapes = []struct{ m, n, k int }{
	{1024, 512, 1408}, {1024, 1408, 512}, {1024, 1024, 1024}, {64, 128, 32}, {64, 256, 64}, {256, 32, 128},
}

// BenchmarkMatMul reports GFLOP/s and the share of the peak that a loop of fused
// multiply-adds reaches in the same process.
func BenchmarkMatMul(b *testing.B) {
	eachVariant(b, func(name string) {
		for _, s := range shapes {
			if name == "portable" && s.m > 64 {
				continue // seconds each
			}
			for i, form := range []string{"A·B", "A·Bt", "At·B"} {
				b.Run(fmt.Sprintf("%s/%s/%dx%dx%d", name, form, s.m, s.k, s.n), func(b *testing.B) {
					x, y, z := make([]float32, s.m*s.k), make([]float32, s.k*s.n), make([]float32, s.m*s.n)
					A, B := M(x, s.m, s.k), M(y, s.k, s.n)
					if i == 1 {
						B = M(y, s.n, s.k).T()
					} else if i == 2 {
						A = M(x, s.k, s.m).T()
					}
					e := New(1)
					FMAPeak(1, time.Second/10) // the processor's clock settles
					for b.Loop() {
						e.MatMul(M(z, s.m, s.n), A, B)
					}
					rate := 2 * float64(s.m*s.n*s.k) * float64(b.N) / b.Elapsed().Seconds() / 1e9
					b.ReportMetric(rate, "GFLOP/s")
					b.ReportMetric(rate/FMAPeak(1, time.Second/10), "of-peak")
				})
			}
		}
	})
}

// BenchmarkRows reports nanoseconds per element of the element-wise kernels on
// 1,024 rows of 512, one thread.
func BenchmarkRows(b *testing.B) {
	const rows, d = 1024, 512
	var in [6][]float32
	for i := range in {
		in[i] = make([]float32, rows*d)
		fill(rand.New(rand.NewPCG(1, uint64(i))), in[i], 0)
	}
	e, inv, l, targets := New(1), make([]float32, rows), NewLossRows(rows), make([]int32, rows)
	rope := NewRope(256, 64, 10000)
	calls := []struct {
		name string
		run  func()
	}{
		{"RMSNorm", func() { e.RMSNorm(in[1], in[0], in[2][:d], inv, rows, d) }},
		{"RMSNormBackward", func() { e.RMSNormBackward(in[1], in[4][:d], in[3], in[0], in[2][:d], inv, rows, d) }},
		{"SiLUMul", func() { e.SiLUMul(in[1], in[0], in[2]) }},
		{"SiLUMulBackward", func() { e.SiLUMulBackward(in[1], in[3], in[4], in[0], in[2]) }},
		{"SoftmaxExp", func() { copy(in[5], in[0]); e.SoftmaxExp(in[5], inv, inv, rows, d, d, d) }},
		{"SoftmaxExpCausal", func() {
			copy(in[5], in[0])
			for at := 0; at < rows*d; at += d * d {
				e.SoftmaxExp(in[5][at:], inv, inv, d, d, d, 0)
			}
		}},
		{"SoftmaxBackward", func() { copy(in[5], in[0]); e.SoftmaxBackward(in[5], in[1], inv, inv, rows, d, d, d) }},
		{"CrossEntropyChunk", func() { l.Start(); e.CrossEntropyChunk(l, in[0], rows, d, d, 0, targets) }},
		{"Rotate", func() { e.Rotate(in[1], rows, 256, d/64, rope, 1, false) }},
		{"AdamW", func() { e.AdamW(in[1], in[0], in[3], in[4], AdamWCoef{Keep: 1, Beta1: 1, Beta2: 1}) }},
		{"Add", func() { e.Add(in[1], in[0]) }},
		{"SumSquares", func() { SumSquares(in[0]) }},
		{"AllFinite", func() { AllFinite(in[0]) }},
	}
	eachVariant(b, func(name string) {
		for _, c := range calls {
			b.Run(name+"/"+c.name, func(b *testing.B) {
				for b.Loop() {
					c.run()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(rows*d), "ns/element")
			})
		}
	})
}
