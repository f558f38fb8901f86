package kernel

import (
	"sync"
	"time"
)

// FMAPeak runs independent fused multiply-adds on the given number of threads for
// a while and returns GFLOP/s, on average: the limit that work of the same length
// is compared with, on a machine that others may use too.
func FMAPeak(threads int, long time.Duration) float64 {
	const rounds = 1 << 16
	flops := make([]float64, threads)
	var done sync.WaitGroup
	start := time.Now()
	for i := range flops {
		done.Go(func() {
			for time.Since(start) < long {
				flops[i] += fmaLoop(rounds)
			}
		})
	}
	done.Wait()
	seconds, total := time.Since(start).Seconds(), 0.0
	for _, n := range flops {
		total += n
	}
	return total / seconds / 1e9
}

// portableFMALoop runs a chain of rounds fma32 and returns its floating-point
// operations; the result takes part in them so that no compiler drops the loop.
func portableFMALoop(rounds int) float64 {
	var s float32
	for i := range rounds {
		s = fma32(s, 0.5, float32(i))
	}
	return 2*float64(rounds) + float64(s-s)
}
