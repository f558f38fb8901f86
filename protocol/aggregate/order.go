package aggregate

import (
	"math"
	"slices"
)

// median takes each element for itself: the value in the middle of the weight. Where a value has exactly half of it on
// its side, the middle lies between two values and is their mean.
//
// Sources that hold less than half of the weight cannot move an element beyond the values of the others.
func (r *Reducer) median(dst []float32) {
	for k := range dst {
		r.sort(k)
		dst[k] = float32(r.middle())
	}
}

// trimmedMean takes each element for itself: the mean of what is left after a weight of cut, less than half, is taken
// away from the smallest values and as much from the largest. A source at the edge stays with the rest of its weight.
//
// Sources of a weight of at most cut cannot move an element beyond the values of the others.
func (r *Reducer) trimmedMean(dst []float32, cut float64) {
	low, high := cut, r.total-cut
	for k := range dst {
		r.sort(k)
		var sum, kept, from float64
		for _, key := range r.keys {
			to := from + r.w[number(key)]
			if part := min(to, high) - max(from, low); part > 0 {
				sum += float64(part * value(key))
				kept += part
			}
			from = to
		}
		if kept > 0 {
			dst[k] = float32(sum / kept)
		} else { // weights so small that a cut of them is rounded to nothing, or to half
			dst[k] = float32(r.middle())
		}
	}
}

// sort puts element k of every source into the keys.
func (r *Reducer) sort(k int) {
	for s, x := range r.x {
		r.keys[s] = key(x[k], s)
	}
	slices.Sort(r.keys)
}

// middle is the weighted median of the values in the sorted keys, with an equal part of the weight on either side.
func (r *Reducer) middle() float64 {
	var sum float64
	for i, key := range r.keys {
		sum += r.w[number(key)]
		switch {
		case 2*sum > r.total:
			return value(key)
		case 2*sum == r.total && i+1 < len(r.keys):
			return (value(key) + value(r.keys[i+1])) / 2
		}
	}
	return value(r.keys[len(r.keys)-1])
}

// key holds a value and the number of its source. Keys are ordered by value, and equal values by source, so that there is
// one sorted order, whatever sorts. -0 counts as +0.
func key(x float32, source int) uint64 {
	bits := math.Float32bits(x)
	switch {
	case x == 0:
		bits = 1 << 31
	case x < 0:
		bits = ^bits
	default:
		bits |= 1 << 31
	}
	return uint64(bits)<<32 | uint64(uint32(source))
}

func value(key uint64) float64 {
	bits := uint32(key >> 32)
	if bits>>31 == 1 {
		bits &^= 1 << 31
	} else {
		bits = ^bits
	}
	return float64(math.Float32frombits(bits))
}

func number(key uint64) uint32 { return uint32(key) }
