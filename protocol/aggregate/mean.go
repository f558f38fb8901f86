package aggregate

import "math"

// mean writes the weighted mean of the sources to dst and fills in the statistics: for each element, w x is rounded to
// float64 and added in the order of the sources, from +0; the sum is divided by the sum of the weights and rounded to
// float32.
func mean(dst []float32, sources [][]float32, weights []float64, stats []Stats) {
	for s, x := range sources {
		stats[s].Finite = len(x) == len(dst)
	}
	for !meanOfFinite(dst, sources, weights, stats) {
		// Once more, without the sources that turned out not to be finite.
	}
}

// meanOfFinite reduces the sources whose statistics say that they are finite. It returns false, with the statistics
// corrected and dst of no use, if one is not.
func meanOfFinite(dst []float32, sources [][]float32, weights []float64, stats []Stats) bool {
	var few [4]pair
	pairs, total := pairUp(few[:0], sources, weights, stats)
	if total == 0 {
		total = 1 // every sum is +0, and so is every mean
	}
	var sum [block]float64
	for from := 0; from < len(dst); from += block {
		to := min(from+block, len(dst))
		acc, out := sum[:to-from], dst[from:to]
		clear(acc)
		last := len(pairs) - 1
		for i := range last {
			pairs[i].add(acc, from)
		}
		pairs[last].mean(out, acc, total, from)
		for i := range last {
			pairs[i].measure(out, from)
		}
	}
	finite := true
	for i := range pairs {
		p := &pairs[i]
		finite = p.a.report(stats) && finite
		finite = p.b.report(stats) && finite
	}
	return finite
}

// source is one source of a reduction with its statistics so far.
type source struct {
	x         []float32 // nil for one that is all zeros
	w         float64
	norm, dot float64
	number    int // among the sources, -1 for one that is none of them
}

// pair is two sources in their order, which are summed side by side: each sum is a chain of additions that wait for each
// other, and several chains take no longer than one.
type pair struct{ a, b source }

// pairUp appends the finite sources to pairs, the last beside one of zeros without weight if their number is odd, and
// returns the sum of their weights too. There is at least one pair.
func pairUp(pairs []pair, sources [][]float32, weights []float64, stats []Stats) ([]pair, float64) {
	var total float64
	none := source{number: -1}
	half := false
	for s, x := range sources {
		if !stats[s].Finite {
			continue
		}
		next := source{x: x, w: weightOf(weights, s), number: s}
		total += next.w
		if half {
			pairs[len(pairs)-1].b = next
		} else {
			pairs = append(pairs, pair{next, none})
		}
		half = !half
	}
	if len(pairs) == 0 {
		pairs = append(pairs, pair{none, none})
	}
	return pairs, total
}

// zeros is a block of the source that is none.
var zeros [block]float32

// block returns n elements of the source.
func (s *source) block(from, n int) []float32 {
	if s.x == nil {
		return zeros[:n]
	}
	return s.x[from : from+n]
}

// report writes the statistics of a source down, or returns false if it is not finite. The square of a float32 is exact
// in float64 and cannot overflow, and no sum of them can.
func (s *source) report(stats []Stats) bool {
	if s.number < 0 {
		return true
	}
	if s.norm > math.MaxFloat64 || s.norm != s.norm {
		stats[s.number] = Stats{}
		return false
	}
	stats[s.number] = Stats{Finite: true, SquaredNorm: s.norm, Dot: s.dot}
	return true
}

// The conversions in what follows forbid the compiler to fuse a multiplication with an addition. A source without weight
// adds zeros, which changes no sum that began at +0.

// add adds the weighted elements to acc.
func (p *pair) add(acc []float64, from int) {
	a, b := p.a.block(from, len(acc)), p.b.block(from, len(acc))
	wa, wb := p.a.w, p.b.w
	b = b[:len(a)]
	acc = acc[:len(a)]
	for k, v := range a {
		acc[k] = acc[k] + float64(wa*float64(v)) + float64(wb*float64(b[k]))
	}
}

// mean is add, the division that gives the result, and measure, in one pass.
func (p *pair) mean(out []float32, acc []float64, total float64, from int) {
	a, b := p.a.block(from, len(acc)), p.b.block(from, len(acc))
	wa, wb := p.a.w, p.b.w
	normA, normB, dotA, dotB := p.a.norm, p.b.norm, p.a.dot, p.b.dot
	b, acc, out = b[:len(a)], acc[:len(a)], out[:len(a)]
	for k, v := range a {
		x, y := float64(v), float64(b[k])
		r := float32((acc[k] + float64(wa*x) + float64(wb*y)) / total)
		out[k] = r
		z := float64(r)
		normA += float64(x * x)
		normB += float64(y * y)
		dotA += float64(x * z)
		dotB += float64(y * z)
	}
	p.a.norm, p.b.norm, p.a.dot, p.b.dot = normA, normB, dotA, dotB
}

// measure adds to the statistics; out is the result.
func (p *pair) measure(out []float32, from int) {
	a, b := p.a.block(from, len(out)), p.b.block(from, len(out))
	normA, normB, dotA, dotB := p.a.norm, p.b.norm, p.a.dot, p.b.dot
	b, out = b[:len(a)], out[:len(a)]
	for k, v := range a {
		x, y, z := float64(v), float64(b[k]), float64(out[k])
		normA += float64(x * x)
		normB += float64(y * y)
		dotA += float64(x * z)
		dotB += float64(y * z)
	}
	p.a.norm, p.b.norm, p.a.dot, p.b.dot = normA, normB, dotA, dotB
}
