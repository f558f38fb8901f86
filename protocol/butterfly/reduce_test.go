package butterfly

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

var (
	nan = float32(math.NaN())
	inf = float32(math.Inf(1))
)

func TestReduceByHand(t *testing.T) {
	for name, c := range map[string]struct {
		sources [][]float32
		weights []float64
		want    []float32
		stats   []Stats
	}{
		"weights of one and three": {
			[][]float32{{4, 0}, {8, 4}}, []float64{1, 3},
			[]float32{7, 3}, []Stats{{true, 16, 28}, {true, 80, 68}}},
		"a NaN leaves its source out": {
			[][]float32{{1, nan}, {2, 4}}, []float64{5, 1},
			[]float32{2, 4}, []Stats{{}, {true, 20, 20}}},
		"an infinity leaves its source out": {
			[][]float32{{2, 4}, {-inf, 1}}, []float64{5, 1},
			[]float32{2, 4}, []Stats{{true, 20, 20}, {}}},
		"an absent source is left out": {
			[][]float32{nil, {2, 4}, {1}}, []float64{5, 1, 1},
			[]float32{2, 4}, []Stats{{}, {true, 20, 20}, {}}},
		"nobody is left": {
			[][]float32{{nan, 1}, nil}, []float64{1, 1},
			[]float32{0, 0}, []Stats{{}, {}}},
		"no source at all": {nil, nil, []float32{0, 0}, []Stats{}},
		"a useless weight is none": {
			[][]float32{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {2, 0}}, []float64{0, -1, math.NaN(), math.Inf(1), 2},
			[]float32{2, 0}, []Stats{{true, 2, 2}, {true, 2, 2}, {true, 2, 2}, {true, 2, 2}, {true, 4, 4}}},
		"the largest numbers do not overflow": {
			[][]float32{{math.MaxFloat32, 0}, {math.MaxFloat32, 0}}, []float64{1 << 64, 1 << 64},
			[]float32{math.MaxFloat32, 0}, []Stats{{true, square(math.MaxFloat32), square(math.MaxFloat32)},
				{true, square(math.MaxFloat32), square(math.MaxFloat32)}}},
	} {
		t.Run(name, func(t *testing.T) {
			dst := []float32{nan, nan}
			stats := Reduce(dst, c.sources, c.weights)
			if dst[0] != c.want[0] || dst[1] != c.want[1] {
				t.Errorf("%v, want %v", dst, c.want)
			}
			for s := range stats {
				if stats[s] != c.stats[s] {
					t.Errorf("source %d: %+v, want %+v", s, stats[s], c.stats[s])
				}
			}
		})
	}
	if stats := Reduce(nil, [][]float32{nil, {}}, []float64{1, 1}); !stats[0].Finite || !stats[1].Finite {
		t.Error("an empty shard is not finite")
	}
}

func square(x float32) float64 { return float64(x) * float64(x) }

// drawSources draws shares of a stage, some of them with a NaN or an infinity somewhere, and their weights.
func drawSources(t *rapid.T, miners, size int) ([][]float32, []float64) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "values"), 1))
	sources, weights := make([][]float32, miners), make([]float64, miners)
	for m := range sources {
		weights[m] = float64(rapid.IntRange(1, 50).Draw(t, "weight"))
		sources[m] = make([]float32, size)
		for k := range sources[m] {
			sources[m][k] = float32(rng.NormFloat64())
		}
		if size > 0 && rapid.IntRange(0, 4).Draw(t, "bad") == 0 {
			sources[m][rng.IntN(size)] = rapid.SampledFrom([]float32{nan, inf, -inf}).Draw(t, "value")
		}
	}
	return sources, weights
}

// merge reduces a whole stage shard by shard, each by both owners, and fails if the two differ in a bit.
func merge(t *rapid.T, p *Plan, sources [][]float32, weights []float64) []float32 {
	merged := make([]float32, p.Size())
	for s := range p.Len() {
		shard := p.Shard(s)
		parts := make([][]float32, len(sources))
		for m := range sources {
			parts[m] = sources[m][shard.From:shard.To]
		}
		second := make([]float32, shard.Len())
		Reduce(merged[shard.From:shard.To], parts, weights)
		Reduce(second, parts, weights)
		for k, v := range second {
			if math.Float32bits(v) != math.Float32bits(merged[shard.From+k]) {
				t.Fatalf("the owners of shard %d differ at %d", s, k)
			}
		}
	}
	return merged
}

// direct is the definition: the weighted mean of an element over the sources that are finite in its shard.
func direct(p *Plan, sources [][]float32, weights []float64) []float64 {
	mean := make([]float64, p.Size())
	for s := range p.Len() {
		shard := p.Shard(s)
		var total float64
		for m, x := range sources {
			finite := true
			for _, v := range x[shard.From:shard.To] {
				finite = finite && !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
			}
			if !finite {
				continue
			}
			total += weights[m]
			for k := shard.From; k < shard.To; k++ {
				mean[k] += weights[m] * float64(x[k])
			}
		}
		for k := shard.From; k < shard.To && total > 0; k++ {
			mean[k] /= total
		}
	}
	return mean
}

func TestMergeEqualsTheDirectWeightedMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		miners := rapid.IntRange(1, 8).Draw(t, "miners")
		size := rapid.OneOf(rapid.IntRange(0, 60), rapid.IntRange(2000, 5000)).Draw(t, "size")
		p := drawPlan(t, miners, size)
		sources, weights := drawSources(t, miners, size)
		merged, want := merge(t, p, sources, weights), direct(p, sources, weights)
		for k := range merged {
			if math.Abs(float64(merged[k])-want[k]) > 1e-6 {
				t.Fatalf("element %d is %v, want %v", k, merged[k], want[k])
			}
		}
	})
}

// Relabelling the miners changes who reduces what and the order of summation, not the mean. Small integers are summed
// without rounding, so that the results are equal in every bit.
func TestRelabellingMinersChangesNoResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		miners := rapid.IntRange(1, 8).Draw(t, "miners")
		size := rapid.IntRange(0, 300).Draw(t, "size")
		label := rapid.Permutation(numbers(miners)).Draw(t, "labels")
		sources, weights := make([][]float32, miners), make([]float64, miners)
		moved, movedWeights := make([][]float32, miners), make([]float64, miners)
		for m := range sources {
			weights[m] = float64(rapid.IntRange(0, 9).Draw(t, "weight"))
			sources[m] = make([]float32, size)
			for k := range sources[m] {
				sources[m][k] = float32((k*7+m*13)%201 - 100)
			}
			moved[label[m]], movedWeights[label[m]] = sources[m], weights[m]
		}
		p := drawPlan(t, miners, size)
		renamed := make([]Pair, p.Len())
		for s := range renamed {
			a, b := label[p.Owners(s).First], label[p.Owners(s).Second]
			renamed[s] = Pair{min(a, b), max(a, b)}
		}
		q, err := FromPairs(miners, size, renamed)
		if err != nil {
			t.Fatal(err)
		}
		a, b := merge(t, p, sources, weights), merge(t, q, moved, movedWeights)
		for k := range a {
			if math.Float32bits(a[k]) != math.Float32bits(b[k]) {
				t.Fatalf("element %d is %v, relabelled %v", k, a[k], b[k])
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

func TestStatsAreSumsOverTheShard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 3*reduceBlock).Draw(t, "size")
		sources, weights := drawSources(t, 4, size)
		dst := make([]float32, size)
		for s, got := range Reduce(dst, sources, weights) {
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

// definition is Reduce as its comment says it, one element and one source at a time.
func definition(dst []float32, sources [][]float32, weights []float64) []Stats {
	stats := make([]Stats, len(sources))
	var total float64
	for s, x := range sources {
		var norm float64
		for _, v := range x {
			norm += square(v)
		}
		if len(x) == len(dst) && norm-norm == 0 {
			stats[s] = Stats{Finite: true, SquaredNorm: norm}
			total += weight(weights[s])
		}
	}
	for k := range dst {
		var sum float64
		for s, x := range sources {
			if w := weight(weights[s]); stats[s].Finite && w > 0 {
				sum += float64(w * float64(x[k]))
			}
		}
		dst[k] = 0
		if total > 0 {
			dst[k] = float32(sum / total)
		}
		for s, x := range sources {
			if stats[s].Finite {
				stats[s].Dot += float64(float64(x[k]) * float64(dst[k]))
			}
		}
	}
	return stats
}

func TestReduceIsItsDefinitionInEveryBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, 3*reduceBlock)).Draw(t, "size")
		sources, weights := drawSources(t, rapid.IntRange(0, 11).Draw(t, "miners"), size)
		for s := range sources {
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				sources[s] = nil
			case 1:
				sources[s] = append(sources[s], 1)
			case 2:
				weights[s] = rapid.SampledFrom([]float64{0, -1, math.NaN(), math.Inf(1), 5e-324, 1 << 64}).Draw(t, "weight")
			case 3:
				for k := range sources[s] { // among them -0 and numbers whose products vanish
					sources[s][k] = []float32{0, float32(math.Copysign(0, -1)), -1e-45, -math.MaxFloat32}[k%4]
				}
			}
		}
		got, want := make([]float32, size), make([]float32, size)
		gotStats, wantStats := Reduce(got, sources, weights), definition(want, sources, weights)
		for k := range want {
			if math.Float32bits(got[k]) != math.Float32bits(want[k]) {
				t.Fatalf("element %d is %v, want %v", k, got[k], want[k])
			}
		}
		for s := range wantStats {
			if gotStats[s] != wantStats[s] {
				t.Fatalf("source %d: %+v, want %+v", s, gotStats[s], wantStats[s])
			}
		}
	})
}

func TestReduceAllocatesOnlyItsStatistics(t *testing.T) {
	sources, dst := [][]float32{make([]float32, 5000), make([]float32, 5000)}, make([]float32, 5000)
	weights := []float64{1, 2}
	if n := testing.AllocsPerRun(20, func() { Reduce(dst, sources, weights) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkReduce counts the bytes of all sources.
func BenchmarkReduce(b *testing.B) {
	const size = 1 << 18
	for _, miners := range []int{2, 3, 8} {
		b.Run(strconv.Itoa(miners), func(b *testing.B) {
			sources, weights := make([][]float32, miners), make([]float64, miners)
			for m := range sources {
				sources[m], weights[m] = make([]float32, size), float64(m+3)
				for k := range sources[m] {
					sources[m][k] = float32(k%1009+m) / 3
				}
			}
			dst := make([]float32, size)
			b.SetBytes(int64(4 * miners * size))
			for b.Loop() {
				Reduce(dst, sources, weights)
			}
		})
	}
}
