// Package aggregate merges the shares of one shard: by their weighted mean, or by a rule that a minority of the weight
// cannot carry away. A run chooses one rule, by name, in its manifest.
//
// A rule is a function of the sources in their order, and of their weights: the same ones give the same bits on every
// machine. All sums are float64 in a fixed order, and a product is rounded before it is added; docs/numerics.md defines
// every rule. What a rule withstands, docs/paper.md says.
package aggregate

import (
	"fmt"
	"slices"
	"strings"
)

// The names of the rules.
const (
	Mean            = "mean"
	Median          = "median"
	TrimmedMean     = "trimmed-mean"
	GeometricMedian = "geometric-median"
	CenteredClip    = "centered-clip"
)

// Names lists the rules.
func Names() []string { return []string{Mean, Median, TrimmedMean, GeometricMedian, CenteredClip} }

// Stats is what an owner reports of one source of a shard, beside its result. From it the orchestrator screens the
// sources. All numbers are float64 sums over the shard in increasing position.
type Stats struct {
	Finite      bool    // the source was present and finite throughout, and is part of the result
	SquaredNorm float64 // sum of x^2, 0 if not Finite
	Dot         float64 // sum of x times result, 0 if not Finite
}

// Reducer merges shards by one rule. It keeps its memory from one shard to the next. It is not safe for concurrent use.
type Reducer struct {
	name  string
	merge func(r *Reducer, dst []float32) // of x by w, one source at least; nil for the mean

	x     [][]float32 // the sources that count: finite, and of a weight above 0
	w     []float64
	total float64 // of w

	keys     []uint64  // one element of every source, in order of value
	centre   []float64 // of the shard, as far as an iteration came
	distance []float64 // of each source from the centre
	pull     []float64 // of each source on the centre
}

// New returns the reducer of a rule. The error is one line that says which names there are.
func New(name string) (*Reducer, error) {
	r := &Reducer{name: name}
	switch name {
	case Mean:
	case Median:
		r.merge = (*Reducer).median
	case TrimmedMean:
		r.merge = func(r *Reducer, dst []float32) { r.trimmedMean(dst, 2*r.total/5) }
	case GeometricMedian:
		r.merge = func(r *Reducer, dst []float32) { r.around(dst, r.geometricMedian) }
	case CenteredClip:
		r.merge = func(r *Reducer, dst []float32) { r.around(dst, r.centeredClip) }
	default:
		return nil, fmt.Errorf("aggregate %q: use %s", name, strings.Join(Names(), ", "))
	}
	return r, nil
}

// Memory returns how many bytes a reducer keeps for shards of so many elements, but for a few numbers per source.
func (r *Reducer) Memory(elements int) int {
	if r.name == GeometricMedian || r.name == CenteredClip {
		return 8 * elements
	}
	return 0
}

// Reduce writes what the sources come to by the rule to dst, and returns the statistics of each. Callers put sources in
// order of the cohort. dst may not overlap a source.
//
// A source with a NaN or an infinity in this shard is left out of it, values and weight; so is one that is absent (nil)
// or not as long as dst. A weight that is not in (0, 2^64], or missing, counts as 0, so that no sum can overflow. With no
// weight left the result is 0: a shard without g still has its momentum. The result is finite, whatever the sources are.
func (r *Reducer) Reduce(dst []float32, sources [][]float32, weights []float64) []Stats {
	stats := make([]Stats, len(sources))
	if r.merge == nil {
		mean(dst, sources, weights, stats)
		return stats
	}
	r.admit(len(dst), sources, weights, stats)
	if len(r.x) == 0 {
		clear(dst)
	} else {
		r.merge(r, dst)
	}
	clear(r.x) // which are not the reducer's to keep
	for s, x := range sources {
		if stats[s].Finite {
			stats[s].Dot = dot(x, dst)
		}
	}
	return stats
}

// admit notes the finite sources of n elements that have a weight, and the norm of every finite one.
func (r *Reducer) admit(n int, sources [][]float32, weights []float64, stats []Stats) {
	r.x, r.w, r.total = r.x[:0], r.w[:0], 0
	for s, x := range sources {
		if len(x) != n {
			continue
		}
		norm := dot(x, x)
		if !finite(norm) {
			continue
		}
		stats[s] = Stats{Finite: true, SquaredNorm: norm}
		if w := weightOf(weights, s); w > 0 {
			r.x, r.w, r.total = append(r.x, x), append(r.w, w), r.total+w
		}
	}
	n = len(r.x)
	r.keys = slices.Grow(r.keys[:0], n)[:n]
	r.distance = slices.Grow(r.distance[:0], n)[:n]
	r.pull = slices.Grow(r.pull[:0], n)[:n]
}

// dot is the sum of the products in increasing position. The product of two float32s is exact in float64 and cannot
// overflow, and no sum of them can.
func dot(x, y []float32) float64 {
	var sum float64
	y = y[:len(x)]
	for k, v := range x {
		sum += float64(float64(v) * float64(y[k]))
	}
	return sum
}

// finite reports whether a number is neither a NaN nor an infinity.
func finite(x float64) bool { return x-x == 0 }

// weightOf returns the weight of source s if it is in (0, 2^64], or 0.
func weightOf(weights []float64, s int) float64 {
	if s < len(weights) && weights[s] > 0 && weights[s] <= 1<<64 {
		return weights[s]
	}
	return 0
}
