package aggregate

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// golden is what outer.json holds.
type golden struct {
	Outer struct {
		MicroBatches []float64 `json:"micro_batches"`
		Epochs       []struct {
			Start          []float64   `json:"start"`
			Miners         [][]float64 `json:"miners"`
			PseudoGradient []float64   `json:"pseudo_gradient"`
		} `json:"epochs"`
	} `json:"outer"`
	Aggregate struct {
		Vectors     [][]float64 `json:"vectors"`
		Median      []float64   `json:"median"`
		TrimmedMean struct {
			Beta   float64   `json:"beta"`
			Result []float64 `json:"result"`
		} `json:"trimmed_mean"`
		GeometricMedian struct {
			Nu         float64   `json:"nu"`
			Tolerance  float64   `json:"tolerance"`
			Iterations int       `json:"iterations"`
			Result     []float64 `json:"result"`
		} `json:"geometric_median"`
		CenteredClip struct {
			Tau        float64   `json:"tau"`
			Iterations int       `json:"iterations"`
			Result     []float64 `json:"result"`
		} `json:"centered_clip"`
	} `json:"aggregate"`
}

// readGolden reads outer.json from the folder that IOTA_GOLDEN names, if it lies there, or from the project's copy.
func readGolden(t *testing.T) golden {
	t.Helper()
	path := filepath.Join("testdata", "outer.json")
	if d := os.Getenv("IOTA_GOLDEN"); d != "" {
		if !filepath.IsAbs(d) { // from the repository's root
			d = filepath.Join("..", "..", d)
		}
		if _, err := os.Stat(filepath.Join(d, "outer.json")); err == nil {
			path = filepath.Join(d, "outer.json")
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Aggregate.Vectors) == 0 || len(g.Outer.Epochs) == 0 {
		t.Fatalf("%s has no vectors", path)
	}
	return g
}

// admitted is a reducer that holds the vectors, each of weight 1.
func (g *golden) admitted(rule string) *Reducer {
	r, err := New(rule)
	if err != nil {
		panic(err)
	}
	var sources [][]float32
	var weights []float64
	for _, x := range g.Aggregate.Vectors {
		sources, weights = append(sources, single(x)), append(weights, 1)
	}
	r.admit(len(sources[0]), sources, weights, make([]Stats, len(sources)))
	return r
}

func single(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

func nearly[F float32 | float64](t *testing.T, what string, got []F, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for k := range want {
		if d := math.Abs(float64(got[k]) - want[k]); !(d <= float64(tolerance*(1+math.Abs(want[k])))) {
			t.Errorf("%s: element %d is %v, want %v", what, k, got[k], want[k])
		}
	}
}

const float32Rounding = 6e-8

func TestTheMeanAgreesWithGoldenVectors(t *testing.T) {
	g := readGolden(t)
	for _, e := range g.Outer.Epochs {
		sources, want := make([][]float32, len(e.Miners)), e.PseudoGradient
		for m, x := range e.Miners {
			diff := make([]float64, len(x))
			for k := range x {
				diff[k] = e.Start[k] - x[k]
			}
			sources[m] = single(diff)
		}
		dst := make([]float32, len(want))
		reduce(t, Mean, dst, sources, g.Outer.MicroBatches)
		nearly(t, Mean, dst, want, 2*float32Rounding)
	}
}

// The vectors fix lengths in their own unit; a run takes them relative to its sources. So the numbers of the file go to
// the iterations themselves.
func TestTheRobustRulesAgreeWithGoldenVectors(t *testing.T) {
	g := readGolden(t)
	a := g.Aggregate
	dst := make([]float32, len(a.Median))
	r := g.admitted(Median)
	r.median(dst)
	nearly(t, Median, dst, a.Median, 0)
	r.trimmedMean(dst, a.TrimmedMean.Beta)
	nearly(t, TrimmedMean, dst, a.TrimmedMean.Result, float32Rounding)

	r.start(len(dst))
	if n := r.weiszfeld(a.GeometricMedian.Nu, a.GeometricMedian.Tolerance, passes); n != a.GeometricMedian.Iterations {
		t.Errorf("%s took %d passes, want %d", GeometricMedian, n, a.GeometricMedian.Iterations)
	}
	nearly(t, GeometricMedian, r.centre, a.GeometricMedian.Result, 1e-9)
	r.start(len(dst))
	if n := r.clip(a.CenteredClip.Tau, stillness*a.CenteredClip.Tau, passes); n >= passes {
		t.Errorf("%s took all of %d passes", CenteredClip, n)
	}
	nearly(t, CenteredClip, r.centre, a.CenteredClip.Result, 1e-9)
}

// As a run calls it, the geometric median of the vectors is that of the file but for rounding: its two lengths only
// matter when it is near a source, and at the end.
func TestTheGeometricMedianOfARunIsThatOfTheVectors(t *testing.T) {
	g := readGolden(t)
	a := g.Aggregate
	r := g.admitted(GeometricMedian)
	dst := make([]float32, len(a.Median))
	r.merge(r, dst)
	nearly(t, GeometricMedian, dst, a.GeometricMedian.Result, float32Rounding)
}
