package butterfly

import "math"

// Stats is what an owner reports of one source of a shard, beside its result. From it the orchestrator screens the
// sources. All numbers are float64 sums over the shard in increasing position.
type Stats struct {
	Finite      bool    // the source was present and finite throughout, and is part of the result
	SquaredNorm float64 // sum of x^2, 0 if not Finite
	Dot         float64 // sum of x times result, 0 if not Finite
}

// reduceBlock is the number of elements summed at a time. It does not change the result.
const reduceBlock = 1024

// Reduce writes the weighted mean of the sources to dst and returns the statistics of each. The same sources in the
// same order give the same bits on every machine: for each element, w x is rounded to float64 and added in the order of
// the sources, from +0; the sum is divided by the sum of the weights and rounded to float32. Callers put sources in
// order of the cohort.
//
// A source with a NaN or an infinity in this shard is left out of it, values and weight; so is one that is absent (nil)
// or not as long as dst. A weight that is not in (0, 2^64] counts as 0, so that no sum can overflow. With no weight left the
// result is 0: a shard without g still has its momentum. dst may not overlap a source.
func Reduce(dst []float32, sources [][]float32, weights []float64) []Stats {
	stats := make([]Stats, len(sources))
	var total float64
	for s, x := range sources {
		if len(x) != len(dst) {
			continue
		}
		stats[s].SquaredNorm, stats[s].Finite = squaredNorm(x)
		if stats[s].Finite {
			total += weight(weights[s])
		}
	}
	var sum [reduceBlock]float64
	for from := 0; from < len(dst); from += reduceBlock {
		to := min(from+reduceBlock, len(dst))
		acc, out := sum[:to-from], dst[from:to]
		clear(acc)
		for s, x := range sources {
			if w := weight(weights[s]); stats[s].Finite && w > 0 {
				addScaled(acc, x[from:to], w)
			}
		}
		for k, v := range acc {
			out[k] = 0
			if total > 0 {
				out[k] = float32(v / total)
			}
		}
		for s, x := range sources {
			if stats[s].Finite {
				stats[s].Dot = addDot(stats[s].Dot, x[from:to], out)
			}
		}
	}
	return stats
}

// weight returns a weight that is in (0, 2^64], or 0.
func weight(w float64) float64 {
	if w > 0 && w <= 1<<64 {
		return w
	}
	return 0
}

// squaredNorm returns the sum of squares, and false if an element is NaN or infinite. The square of a float32 is exact
// in float64 and cannot overflow, and no sum of them can.
func squaredNorm(x []float32) (sum float64, finite bool) {
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	if sum > math.MaxFloat64 || sum != sum {
		return 0, false
	}
	return sum, true
}

// addScaled adds w x to acc. The conversion forbids the compiler to fuse the multiplication with the addition.
func addScaled(acc []float64, x []float32, w float64) {
	for k, v := range x {
		acc[k] += float64(w * float64(v))
	}
}

// addDot adds the dot product of x and y to sum, element by element.
func addDot(sum float64, x, y []float32) float64 {
	for k, v := range x {
		sum += float64(float64(v) * float64(y[k]))
	}
	return sum
}
