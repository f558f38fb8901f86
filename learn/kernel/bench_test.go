package kernel

import (
	"fmt"
	"testing"
)

// BenchmarkMatMul reports GFLOP/s and the share of the peak that a loop of fused
// multiply-adds reaches in the same process.
func BenchmarkMatMul(b *testing.B) {
	eachVariant(b, func(name string) {
		if name == "portable" {
			return
		}
		for _, s := range []struct{ m, n, k int }{{1024, 512, 1408}, {1024, 1408, 512}, {1024, 1024, 1024}, {64, 128, 32}, {64, 256, 64}, {256, 32, 128}} {
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
					for b.Loop() {
						e.MatMul(M(z, s.m, s.n), A, B)
					}
					rate := 2 * float64(s.m*s.n*s.k) * float64(b.N) / b.Elapsed().Seconds() / 1e9
					b.ReportMetric(rate, "GFLOP/s")
					b.ReportMetric(rate/FMAPeak(1), "of-peak")
				})
			}
		}
	})
}
