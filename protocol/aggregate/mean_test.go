package aggregate

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestMeanByHand(t *testing.T) {
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
			stats := reduce(t, Mean, dst, c.sources, c.weights)
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
	if stats := reduce(t, Mean, nil, [][]float32{nil, {}}, []float64{1, 1}); !stats[0].Finite || !stats[1].Finite {
		t.Error("an empty shard is not finite")
	}
}

func square(x float32) float64 { return float64(x) * float64(x) }

// definition is the mean as its comment says it, one element and one source at a time.
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
			total += weightOf(weights, s)
		}
	}
	for k := range dst {
		var sum float64
		for s, x := range sources {
			if w := weightOf(weights, s); stats[s].Finite && w > 0 {
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

func TestTheMeanIsItsDefinitionInEveryBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, 3*block)).Draw(t, "size")
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
		gotStats, wantStats := reduce(t, Mean, got, sources, weights), definition(want, sources, weights)
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
