package aggregate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	nan = float32(math.NaN())
	inf = float32(math.Inf(1))
)

// reduce merges sources by a rule.
func reduce(t interface{ Fatal(...any) }, rule string, dst []float32, sources [][]float32, weights []float64) []Stats {
	r, err := New(rule)
	if err != nil {
		t.Fatal(err)
	}
	return r.Reduce(dst, sources, weights)
}

// drawFinite draws shares of a shard, and whole numbers as their weights.
func drawFinite(t *rapid.T, miners, size int) ([][]float32, []float64) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "values"), 1))
	sources, weights := make([][]float32, miners), make([]float64, miners)
	for m := range sources {
		weights[m] = float64(rapid.IntRange(1, 50).Draw(t, "weight"))
		sources[m] = make([]float32, size)
		for k := range sources[m] {
			sources[m][k] = float32(rng.NormFloat64())
		}
	}
	return sources, weights
}

// drawSources is drawFinite with a NaN or an infinity somewhere in some of the shares.
func drawSources(t *rapid.T, miners, size int) ([][]float32, []float64) {
	sources, weights := drawFinite(t, miners, size)
	for m := range sources {
		if size > 0 && rapid.IntRange(0, 4).Draw(t, "bad") == 0 {
			at := rapid.IntRange(0, size-1).Draw(t, "at")
			sources[m][at] = rapid.SampledFrom([]float32{nan, inf, -inf}).Draw(t, "value")
		}
	}
	return sources, weights
}

// forEveryRule checks a law of all rules.
func forEveryRule(t *testing.T, law func(t *rapid.T, rule string)) {
	t.Helper()
	for _, rule := range Names() {
		t.Run(rule, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { law(t, rule) })
		})
	}
}

func drawSize(t *rapid.T) int {
	return rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(6, 40), rapid.IntRange(block-1, 2*block+1)).Draw(t, "size")
}

// same reports the first element in which two shards differ in a bit.
func same(t *rapid.T, what string, got, want []float32) {
	for k := range want {
		if math.Float32bits(got[k]) != math.Float32bits(want[k]) {
			t.Fatalf("%s: element %d is %v, want %v", what, k, got[k], want[k])
		}
	}
}

func TestUnknownRulesAreRefusedInOneLine(t *testing.T) {
	for _, name := range []string{"", "krum", "Mean"} {
		if _, err := New(name); err == nil || err.Error() != fmt.Sprintf("aggregate %q: use %s", name, strings.Join(Names(), ", ")) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestStatsAreSumsOverTheShard(t *testing.T) {
	forEveryRule(t, func(t *rapid.T, rule string) {
		size := drawSize(t)
		sources, weights := drawSources(t, rapid.IntRange(0, 5).Draw(t, "miners"), size)
		dst := make([]float32, size)
		for s, got := range reduce(t, rule, dst, sources, weights) {
			var norm, dot float64
			for k, v := range sources[s] {
				norm += float64(v) * float64(v)
				dot += float64(v) * float64(dst[k])
			}
			finite := !math.IsNaN(norm) && !math.IsInf(norm, 0)
			if !finite {
				norm, dot = 0, 0
			}
			if got.Finite != finite || got.SquaredNorm != norm || got.Dot != dot {
				t.Fatalf("source %d: %+v, want %v, %v, %v", s, got, finite, norm, dot)
			}
		}
	})
}

func TestAnyInputGivesAFiniteResult(t *testing.T) {
	forEveryRule(t, func(t *rapid.T, rule string) {
		size := drawSize(t)
		sources, weights := drawSources(t, rapid.IntRange(0, 9).Draw(t, "miners"), size)
		for s := range sources {
			switch rapid.IntRange(0, 7).Draw(t, "kind") {
			case 0:
				sources[s] = nil
			case 1:
				sources[s] = append(sources[s], 1)
			case 2:
				weights[s] = rapid.SampledFrom([]float64{0, -1, math.NaN(), math.Inf(1), 5e-324, 1e-323, 1 << 64}).Draw(t, "weight")
			case 3:
				extreme := rapid.SampledFrom([]float32{math.MaxFloat32, -math.MaxFloat32, 1e-45, -1e-45, 0}).Draw(t, "extreme")
				for k := range sources[s] {
					sources[s][k] = extreme
				}
			}
		}
		weights = weights[:rapid.IntRange(0, len(weights)).Draw(t, "weights")]
		dst, weighty := make([]float32, size), false
		for k := range dst {
			dst[k] = nan
		}
		for s, st := range reduce(t, rule, dst, sources, weights) {
			weighty = weighty || st.Finite && weightOf(weights, s) > 0
		}
		for k, v := range dst {
			if !finite(float64(v)) || !weighty && v != 0 {
				t.Fatalf("element %d is %v", k, v)
			}
		}
	})
}

// A source that does not count changes nothing, wherever it stands.
func TestSourcesThatDoNotCountLeaveNoTrace(t *testing.T) {
	forEveryRule(t, func(t *rapid.T, rule string) {
		size := 1 + drawSize(t)
		sources, weights := drawFinite(t, rapid.IntRange(1, 6).Draw(t, "miners"), size)
		bad := make([]float32, size)
		bad[rapid.IntRange(0, size-1).Draw(t, "at")] = nan
		var more [][]float32
		var moreWeights []float64
		for s := range sources {
			useless := [][]float32{bad, nil, make([]float32, size+1), sources[0]}
			i := rapid.IntRange(0, len(useless)).Draw(t, "before it")
			if i < len(useless) {
				w := 7.0
				if i == 3 {
					w = -1
				}
				more, moreWeights = append(more, useless[i]), append(moreWeights, w)
			}
			more, moreWeights = append(more, sources[s]), append(moreWeights, weights[s])
		}
		got, want := make([]float32, size), make([]float32, size)
		reduce(t, rule, want, sources, weights)
		reduce(t, rule, got, more, moreWeights)
		same(t, "with useless sources", got, want)
	})
}

// Order decides how sums are rounded, and nothing else. The rules that take elements for themselves sum weights, which
// are whole numbers, and no values, but for the trimmed mean, which sorts them first: not a bit changes there.
func TestTheOrderOfSourcesDoesNotMatter(t *testing.T) {
	forEveryRule(t, func(t *rapid.T, rule string) {
		miners, size := rapid.IntRange(1, 9).Draw(t, "miners"), drawSize(t)
		sources, weights := drawFinite(t, miners, size)
		order := rapid.Permutation(numbers(miners)).Draw(t, "order")
		moved, movedWeights := make([][]float32, miners), make([]float64, miners)
		for i, s := range order {
			moved[i], movedWeights[i] = sources[s], weights[s]
		}
		got, want := make([]float32, size), make([]float32, size)
		reduce(t, rule, want, sources, weights)
		reduce(t, rule, got, moved, movedWeights)
		if rule == Median || rule == TrimmedMean {
			same(t, "in another order", got, want)
			return
		}
		for k := range want {
			if math.Abs(float64(got[k]-want[k])) > 1e-6 {
				t.Fatalf("element %d is %v, in another order %v", k, want[k], got[k])
			}
		}
	})
}

func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Scaling by a power of two rounds nothing: the rules have no size and no weight that they expect.
func TestWeightsAndValuesHaveNoUnit(t *testing.T) {
	forEveryRule(t, func(t *rapid.T, rule string) {
		size := drawSize(t)
		sources, weights := drawFinite(t, rapid.IntRange(1, 9).Draw(t, "miners"), size)
		want := make([]float32, size)
		reduce(t, rule, want, sources, weights)
		w, v := math.Ldexp(1, rapid.IntRange(-30, 30).Draw(t, "weights")), float32(math.Ldexp(1, rapid.IntRange(-60, 60).Draw(t, "values")))
		for s := range sources {
			weights[s] *= w
			for k := range sources[s] {
				sources[s][k] *= v
			}
		}
		for k := range want {
			want[k] *= v
		}
		got := make([]float32, size)
		reduce(t, rule, got, sources, weights)
		same(t, "in other units", got, want)
	})
}

func TestTheResultLiesBetweenTheSources(t *testing.T) {
	forEveryRule(t, func(t *rapid.T, rule string) {
		size := drawSize(t)
		sources, weights := drawFinite(t, rapid.IntRange(1, 9).Draw(t, "miners"), size)
		dst := make([]float32, size)
		reduce(t, rule, dst, sources, weights)
		for k, v := range dst {
			low, high := inf, -inf
			for _, x := range sources {
				low, high = min(low, x[k]), max(high, x[k])
			}
			if v < low || v > high {
				t.Fatalf("element %d is %v, the sources lie between %v and %v", k, v, low, high)
			}
		}
	})
}

func TestEqualSourcesComeToThemselves(t *testing.T) {
	forEveryRule(t, func(t *rapid.T, rule string) {
		size, miners := drawSize(t), rapid.IntRange(1, 9).Draw(t, "miners")
		sources, weights := drawFinite(t, miners, size)
		for s := range sources {
			sources[s] = sources[0]
		}
		dst := make([]float32, size)
		reduce(t, rule, dst, sources, weights)
		same(t, "of equal sources", dst, sources[0])
	})
}

// A reducer that was used before, for a larger shard of more sources, gives the same bits as a new one.
func TestAReducerRemembersNothing(t *testing.T) {
	forEveryRule(t, func(t *rapid.T, rule string) {
		r, err := New(rule)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			size := drawSize(t)
			sources, weights := drawSources(t, rapid.IntRange(0, 7).Draw(t, "miners"), size)
			got, want := make([]float32, size), make([]float32, size)
			a, b := r.Reduce(got, sources, weights), reduce(t, rule, want, sources, weights)
			same(t, "of a used reducer", got, want)
			for s := range b {
				if a[s] != b[s] {
					t.Fatalf("source %d: %+v, want %+v", s, a[s], b[s])
				}
			}
		}
	})
}

func TestReduceAllocatesOnlyItsStatistics(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	sources, dst := make([][]float32, 15), make([]float32, 3000)
	weights := make([]float64, len(sources))
	for s := range sources {
		sources[s], weights[s] = make([]float32, len(dst)), float64(s+1)
		for k := range sources[s] {
			sources[s][k] = float32(rng.NormFloat64())
		}
	}
	for _, rule := range Names() {
		r, err := New(rule)
		if err != nil {
			t.Fatal(err)
		}
		most := 1.0
		if rule == Mean {
			most = 5 // the pairs of more than eight sources
		}
		if n := testing.AllocsPerRun(3, func() { r.Reduce(dst, sources, weights) }); n > most {
			t.Errorf("%s: %v allocations", rule, n)
		}
	}
}

// BenchmarkReduce counts the bytes of all sources.
func BenchmarkReduce(b *testing.B) {
	const size = 1 << 16
	for _, rule := range Names() {
		for _, miners := range []int{2, 3, 8, 12} {
			b.Run(fmt.Sprint(rule, "/", miners), func(b *testing.B) {
				sources, weights := make([][]float32, miners), make([]float64, miners)
				for m := range sources {
					sources[m], weights[m] = make([]float32, size), float64(m+3)
					for k := range sources[m] {
						sources[m][k] = float32(k*(m+7)%1009) / 3
					}
				}
				r, err := New(rule)
				if err != nil {
					b.Fatal(err)
				}
				dst := make([]float32, size)
				b.SetBytes(int64(4 * miners * size))
				for b.Loop() {
					r.Reduce(dst, sources, weights)
				}
			})
		}
	}
}
