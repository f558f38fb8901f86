package aggregate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// repeated is element k of every source in order, as often as its weight says.
func repeated(k int, sources [][]float32, weights []float64) []float64 {
	var values []float64
	for s, x := range sources {
		for range int(weights[s]) {
			values = append(values, float64(x[k]))
		}
	}
	slices.Sort(values)
	return values
}

func average(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// A source of weight w counts as w sources of weight 1, of which the textbook's definitions speak.
func TestElementRulesAreTheirPlainDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 20).Draw(t, "size")
		sources, weights := drawFinite(t, rapid.IntRange(1, 9).Draw(t, "miners"), size)
		for s := range sources { // a whole number of those of weight 1 is cut
			weights[s] *= 5
			for k := range sources[s] {
				if rapid.IntRange(0, 9).Draw(t, "tie") == 0 {
					sources[s][k] = float32(k % 2)
				}
			}
		}
		median, trimmed := make([]float32, size), make([]float32, size)
		reduce(t, Median, median, sources, weights)
		reduce(t, TrimmedMean, trimmed, sources, weights)
		for k := range size {
			all := repeated(k, sources, weights)
			if want := float32(average(all[(len(all)-1)/2 : len(all)/2+1])); median[k] != want {
				t.Fatalf("the median of %v is %v, not %v", all, want, median[k])
			}
			cut := 2 * len(all) / 5
			if want := average(all[cut : len(all)-cut]); math.Abs(float64(trimmed[k])-want) > 1e-6 {
				t.Fatalf("the trimmed mean of %v is %v, not %v", all, want, trimmed[k])
			}
		}
	})
}

// distances are from a point to the sources.
func distances(z []float64, sources [][]float32) []float64 {
	d := make([]float64, len(sources))
	for s, x := range sources {
		for k, v := range x {
			d[s] += (float64(v) - z[k]) * (float64(v) - z[k])
		}
		d[s] = math.Sqrt(d[s])
	}
	return d
}

// rest is the length of the sum of what pulls on the centre, over what it could be at most.
func rest(r *Reducer, pull func(w, distance float64) float64) float64 {
	sum, most := make([]float64, len(r.centre)), 0.0
	for s, d := range distances(r.centre, r.x) {
		p := pull(r.w[s], d)
		for k, v := range r.x[s] {
			sum[k] += p * (float64(v) - r.centre[k])
		}
		most += p * d
	}
	var length float64
	for _, v := range sum {
		length += v * v
	}
	return math.Sqrt(length) / max(most, 1e-300)
}

// admitDrawn is a reducer that holds drawn sources of many elements, among which the centre rests soon: in few dimensions
// an iteration can be slow, and ends before it is there.
func admitDrawn(t *rapid.T) *Reducer {
	size := rapid.IntRange(20, 60).Draw(t, "size")
	sources, _ := drawFinite(t, rapid.IntRange(4, 9).Draw(t, "miners"), size)
	weights := make([]float64, len(sources))
	for s := range weights {
		weights[s] = float64(rapid.IntRange(10, 15).Draw(t, "weight"))
	}
	r := new(Reducer)
	r.admit(size, sources, weights, make([]Stats, len(sources)))
	r.start(size)
	return r
}

// The distances' weighted sum is least where the unit vectors to all sources, weighted, cancel, or at a source that pulls
// at least as strongly as the others together.
func TestTheGeometricMedianHasTheLeastDistances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := admitDrawn(t)
		r.geometricMedian(r.radius())
		at := func(z []float64) (sum float64) {
			for s, d := range distances(z, r.x) {
				sum += r.w[s] * d
			}
			return sum
		}
		best := at(r.centre)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "directions"), 1))
		for _, step := range []float64{1e-3, 1e-1, 1} {
			for range 20 {
				z := slices.Clone(r.centre)
				for k := range z {
					z[k] += step * rng.NormFloat64()
				}
				if there := at(z); there < best*(1-1e-9) {
					t.Fatalf("the distances sum to %v, but to %v a step of %v away", best, there, step)
				}
			}
		}
	})
}

func TestTheCenteredClipRestsWhereTheCutDifferencesCancel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := admitDrawn(t)
		radius := r.radius()
		r.centeredClip(radius)
		if left := rest(r, func(w, d float64) float64 { return w * min(1, radius/d) }); left > 1e-8 {
			t.Fatalf("%v of the pull is left", left)
		}
	})
}

// liars is a third of the sources, by number and by weight: of the robust rules, all withstand that.
const liars = 3

// TestLiarsCannotCarryARobustRuleAway draws honest sources around a centre, and liars that agree on anything: the result
// stays among the honest sources. The mean goes where the liars want.
func TestLiarsCannotCarryARobustRuleAway(t *testing.T) {
	forEveryRule(t, func(t *rapid.T, rule string) {
		size := rapid.IntRange(1, 100).Draw(t, "size")
		sources, weights := drawFinite(t, 3*liars, size)
		honest, radius := make([]float64, size), 0.0
		for s, x := range sources[liars:] {
			weights[liars+s] = 10
			for k, v := range x {
				honest[k] += float64(v) / float64(2*liars)
			}
		}
		for _, d := range distances(honest, sources[liars:]) {
			radius = max(radius, d)
		}
		lie := rapid.SampledFrom([]float32{-1e30, -1000, 10, 1e6, math.MaxFloat32}).Draw(t, "lie")
		for s, x := range sources[:liars] {
			weights[s] = 10
			for k := range x {
				x[k] = lie
			}
		}
		dst := make([]float32, size)
		reduce(t, rule, dst, sources, weights)
		moved := distances(honest, [][]float32{dst})[0]
		if rule == Mean {
			if want := math.Abs(float64(lie)) / 4; moved < want {
				t.Fatalf("the liars moved the mean by %v only", moved)
			}
			return
		}
		if moved > 1.5*radius {
			t.Fatalf("the liars moved the result by %v, honest sources lie within %v", moved, radius)
		}
		if rule == Median || rule == TrimmedMean {
			for k, v := range dst {
				low, high := inf, -inf
				for _, x := range sources[liars:] {
					low, high = min(low, x[k]), max(high, x[k])
				}
				if v < low || v > high {
					t.Fatalf("element %d is %v, the honest ones lie between %v and %v", k, v, low, high)
				}
			}
		}
	})
}

// Two fifths of the weight is what the trimmed mean withstands, and not a source more.
func TestTheTrimmedMeanWithstandsTwoFifthsOfTheWeight(t *testing.T) {
	for _, w := range []float64{1, 7, 14, 1e6 + 1} {
		sources := [][]float32{{1}, {1}, {1}, {math.MaxFloat32}, {math.MaxFloat32}}
		dst := make([]float32, 1)
		reduce(t, TrimmedMean, dst, sources, []float64{w, w, w, w, w})
		if dst[0] != 1 {
			t.Errorf("weight %v: %v", w, dst[0])
		}
		reduce(t, TrimmedMean, dst, sources, []float64{w, w, w, w, 1.5 * w})
		if dst[0] < 1e30 {
			t.Errorf("weight %v and more: %v", w, dst[0])
		}
	}
}

// Where half of the weight lies at one point, every robust rule but the trimmed mean ends there.
func TestAMajorityThatAgreesHasItsWay(t *testing.T) {
	for _, rule := range []string{Median, GeometricMedian, CenteredClip} {
		dst := make([]float32, 2)
		reduce(t, rule, dst, [][]float32{{1, 2}, {9, -9}, {1, 2}, {-4, 100}, {1, 2}}, []float64{1, 1, 1, 1, 1})
		if dst[0] != 1 || dst[1] != 2 {
			t.Errorf("%s: %v", rule, dst)
		}
	}
}

func TestKeysAreOrderedAsTheirValues(t *testing.T) {
	values := []float32{-math.MaxFloat32, -1.5, -1, -1e-45, 0, 1e-45, 1, 1.5, math.MaxFloat32}
	for i, v := range values {
		if value(key(v, 3)) != float64(v) || number(key(v, 3)) != 3 {
			t.Errorf("%v came back as %v", v, value(key(v, 3)))
		}
		if i > 0 && key(values[i-1], 1<<20) >= key(v, 0) {
			t.Errorf("%v is not before %v", values[i-1], v)
		}
	}
	if key(float32(math.Copysign(0, -1)), 1) != key(0, 1) {
		t.Error("-0 is not +0")
	}
}
