package clasp

import (
	"math"
	"slices"
)

const (
	// Losses further than clipAt robust deviations from the fit count as that far, so that a few absurd ones hide nobody.
	clipAt = 4
	// farthest, in nats, is how far a loss can lie from the median of all.
	farthest = 1000
	// clipRounds is how often fit and clipping follow each other.
	clipRounds = 10
	// leastNoise, in nats, is what a loss is uncertain by at least: smaller differences mean nothing.
	leastNoise = 1e-3
	// mad is the ratio of a normal number's standard deviation to its median absolute value.
	mad = 1.4826
)

// solve finds the effects: by least squares, of losses that are clipped where they lie far from the fit. Losses of which
// none does give plain least squares. What is far is first measured from medians, which no loss can pull far, however
// absurd.
func (f *fit) solve() {
	level := median(slices.Clone(f.losses)) // what the prior holds the trend to
	expected := f.polish()
	for range clipRounds {
		bounds := f.bounds(expected)
		right := make([]float64, f.inverse.n)
		for i, e := range expected {
			y := e + clip(f.losses[i]-e, bounds[f.segmentOf(i)]) - level
			f.entries(i, func(c int, x float64) { right[c] += float64(x * y) })
		}
		f.beta = f.inverse.times(right)
		for i := range expected {
			expected[i] = level + f.at(i, f.beta)
		}
	}
	f.measure(expected)
}

// polish returns, for each sample, the median loss of its segment and those of its miners beyond what the others explain.
func (f *fit) polish() []float64 {
	expected := make([]float64, f.n)
	f.bySegment(func(_, from, to int) {
		m := median(slices.Clone(f.losses[from:to]))
		for i := from; i < to; i++ {
			expected[i] = m
		}
	})
	const sweeps = 2 // the second sees every stage without the effects of the others
	for range sweeps {
		for s := range f.stages {
			rests := make([][]float64, len(f.columns))
			for i, e := range expected {
				c := f.of[i*f.stages+s]
				rests[c] = append(rests[c], f.losses[i]-e)
			}
			effects := make([]float64, len(f.columns))
			for c, rest := range rests {
				effects[c] = median(rest)
			}
			for i := range expected {
				expected[i] += effects[f.of[i*f.stages+s]]
			}
		}
	}
	return expected
}

// bounds returns how far a loss may lie from what is expected, by segment.
func (f *fit) bounds(expected []float64) []float64 {
	out := make([]float64, f.segments)
	f.bySegment(func(g, from, to int) {
		distances := make([]float64, 0, to-from)
		for i := from; i < to; i++ {
			distances = append(distances, math.Abs(f.losses[i]-expected[i]))
		}
		out[g] = clipAt * max(leastNoise, float64(mad*median(distances))*f.inflate())
	})
	return out
}

// inflate is by how much deviations from the truth exceed those from the fit.
func (f *fit) inflate() float64 { return math.Sqrt(float64(f.n) / float64(f.freedom)) }

// measure finds the noise of each segment: losses vary less while a model knows nothing than later on.
func (f *fit) measure(expected []float64) {
	bounds := f.bounds(expected)
	f.noise, f.spread = make([]float64, f.segments), 0
	inflate := float64(f.n) / float64(f.freedom)
	f.bySegment(func(g, from, to int) {
		sum, inside := 0.0, 0
		for i := from; i < to; i++ {
			r := clip(f.losses[i]-expected[i], bounds[g])
			if math.Abs(r) < bounds[g] {
				inside++
			}
			sum += float64(r * r)
		}
		share := float64(max(1, inside)) / float64(to-from) // of the losses that pull at the fit with all their distance
		f.noise[g] = max(leastNoise*leastNoise, sum/float64(to-from)*inflate/float64(share*share))
		f.spread += f.noise[g] * float64(to-from) / float64(f.n)
	})
}

// allow finds by how much honest miners may differ. All replicas of a stage are equal when an epoch begins and drift
// apart as they take inner steps, each as many as it is fast. One that took none would still have the loss of the
// epoch's start: the mean distance of the trend from there, over the samples of a miner, is what its lag can amount to.
func (f *fit) allow(w *Window) {
	f.allowance = make([]float64, len(f.columns))
	start := 0.0
	for i := range f.n {
		trend := f.trend(i, f.beta)
		if i == 0 || w.Epochs[w.at(i)] != w.Epochs[w.at(i-1)] {
			start = trend
		}
		for _, c := range f.of[i*f.stages : (i+1)*f.stages] {
			f.allowance[c] += start - trend
		}
	}
	for c, col := range f.columns {
		f.allowance[c] = math.Abs(f.allowance[c]) / float64(col.samples)
	}
}

// clip returns x, brought into [-bound, bound].
func clip(x, bound float64) float64 { return max(-bound, min(bound, x)) }
