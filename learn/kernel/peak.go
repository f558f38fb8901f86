package kernel

import (
	"sync"
	"time"
)

// FMAPeak measures a loop of independent fused multiply-adds on the given number
// of threads, the best of several runs, and returns GFLOP/s: the limit that a
// matrix product is compared with.
func FMAPeak(threads int) float64 {
	const runs, rounds = 8, 1 << 20
	best := 0.0
	for range runs {
		var flops float64
		var done sync.WaitGroup
		start := time.Now()
		for range threads - 1 {
			done.Go(func() { fmaLoop(rounds) })
		}
		flops = fmaLoop(rounds) * float64(threads)
		done.Wait()
		best = max(best, flops/time.Since(start).Seconds()/1e9)
	}
	return best
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
