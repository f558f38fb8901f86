package butterfly

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/iota-train/iota/protocol/aggregate"
)

var (
	nan = float32(math.NaN())
	inf = float32(math.Inf(1))
)

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
	mean, err := aggregate.New(aggregate.Mean)
	if err != nil {
		t.Fatal(err)
	}
	for s := range p.Len() {
		shard := p.Shard(s)
		parts := make([][]float32, len(sources))
		for m := range sources {
			parts[m] = sources[m][shard.From:shard.To]
		}
		second := make([]float32, shard.Len())
		mean.Reduce(merged[shard.From:shard.To], parts, weights)
		mean.Reduce(second, parts, weights)
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
