package clasp

import (
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

func TestAWindowKeepsTheNewestSamples(t *testing.T) {
	w := NewWindow(2, 3)
	for i := range 5 {
		if !w.Add(uint64(i), []int{i, 10 + i}, float64(i)) {
			t.Fatalf("sample %d was refused", i)
		}
	}
	if w.Len() != 3 || w.Count != 5 {
		t.Fatalf("%d samples of %d", w.Len(), w.Count)
	}
	for i := range 3 {
		if path := w.path(i); w.loss(i) != float64(i+2) || path[0] != int32(i+2) || path[1] != int32(i+12) {
			t.Errorf("sample %d: loss %v, pathway %v", i, w.loss(i), path)
		}
	}
}

func TestWhatIsNoSampleIsRefused(t *testing.T) {
	for name, s := range map[string]struct {
		path []int
		loss float64
	}{
		"a loss that is no number":  {[]int{1, 2}, math.NaN()},
		"an infinite loss":          {[]int{1, 2}, math.Inf(1)},
		"a pathway that is short":   {[]int{1}, 2},
		"a pathway that is long":    {[]int{1, 2, 3}, 2},
		"a gap":                     {[]int{1, -1}, 2},
		"a number beyond all sense": {[]int{1, math.MaxInt}, 2},
	} {
		w := NewWindow(2, 10)
		if w.Add(0, s.path, s.loss) || w.Len() != 0 || w.Count != 0 {
			t.Errorf("%s was taken in", name)
		}
	}
	var none Window
	if none.Add(0, nil, 1) || len(none.Effects()) != 0 {
		t.Error("the zero window took something in")
	}
}

func TestAnEncodedWindowGivesTheSameEffects(t *testing.T) {
	g := game{stages: 3, miners: 4, effects: map[place]float64{{1, 2}: 0.4}, noise: 0.3}
	w := g.play(500, 1)
	for i := range 77 { // beyond its capacity
		w.Add(9, []int{i % 4, 4 + i%3, 8 + i%2}, 3)
	}
	b, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	var again Window
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(w.Effects(), again.Effects()) {
		t.Error("the effects changed")
	}
}

// TestEffectsHaveTheSameBitsEverywhere holds the bits that another processor must find too.
func TestEffectsHaveTheSameBitsEverywhere(t *testing.T) {
	d := rand.New(rand.NewPCG(7, 7))
	w := NewWindow(3, 600)
	for i := range 700 {
		path := []int{d.IntN(4), 4 + d.IntN(4), 8 + d.IntN(5)}
		loss := 5 - float64(float64(i)/300) + d.Float64() // no rounding but that of float64
		if path[1] == 6 {
			loss += 0.75
		}
		w.Add(uint64(i/50), path, loss)
	}
	h := fnv.New64a()
	for _, e := range w.Effects() {
		for _, x := range []float64{e.Effect, e.Error, e.Allowance, e.Z} {
			_ = binary.Write(h, binary.LittleEndian, math.Float64bits(x))
		}
	}
	const want = 0xd685faff27fc1c4a
	if got := h.Sum64(); got != want {
		t.Errorf("hash %#x, want %#x", got, uint64(want))
	}
}

func TestAnAbsurdLossHidesNobody(t *testing.T) {
	g := game{stages: 3, miners: 6, effects: map[place]float64{{1, 2}: 0.6}, noise: 0.3}
	for _, absurd := range []float64{1e3, 1e100, -1e100} {
		w := g.play(1000, 3)
		for i := 0; i < 1000; i += 17 {
			if w.Paths[3*i+2] == 13 { // a miner of the last stage that lies now and then
				w.Losses[i] = absurd
			}
		}
		list := w.Effects()
		for _, e := range list {
			if want := e.Miner == 8; e.Flagged != want && e.Miner != 13 {
				t.Errorf("loss %g: %+v", absurd, e)
			}
		}
		if e := find(t, list, 8); math.Abs(e.Effect-0.6) > 4*e.Error {
			t.Errorf("loss %g: effect %.3f, error %.3f", absurd, e.Effect, e.Error)
		}
	}
}

func TestWhoAlwaysStatesAnAbsurdLossIsFlaggedAlone(t *testing.T) {
	g := game{stages: 3, miners: 4, noise: 0.3}
	for _, absurd := range []float64{1e100, -1e100, math.MaxFloat64} {
		w := g.play(1000, 1)
		for i := range 1000 {
			if w.Paths[3*i+2] == 9 {
				w.Losses[i] = absurd
			}
		}
		for _, e := range w.Effects() {
			if e.Flagged != (e.Miner == 9) || math.IsNaN(e.Z) || math.IsInf(e.Z, 0) {
				t.Errorf("loss %g: %+v", absurd, e)
			}
		}
	}
}

func TestLossesWithoutNoiseGiveFiniteNumbers(t *testing.T) {
	for _, effect := range []float64{0, 0.5} {
		g := game{stages: 2, miners: 4, effects: map[place]float64{{0, 1}: effect}}
		for _, e := range g.play(400, 1).Effects() {
			if math.IsNaN(e.Z) || math.IsInf(e.Z, 0) || e.Flagged != (effect > 0 && e.Miner == 1) {
				t.Errorf("effect %v: %+v", effect, e)
			}
		}
	}
}

func TestTheSystemStaysSmallWithManyMiners(t *testing.T) {
	g := game{stages: 3, miners: 400, effects: map[place]float64{{1, 2}: 1}, noise: 0.3}
	w := g.play(30_000, 1)
	f := newFit(w)
	if n := len(f.columns); n > maxColumns {
		t.Errorf("%d columns", n)
	}
	if n := len(w.Effects()); n != 1200 {
		t.Errorf("%d effects, want one for each miner", n)
	}
}

func TestTheQuantileIsStudents(t *testing.T) {
	for freedom, want := range map[int]float64{20: 3.850, 30: 3.646, 60: 3.460, 120: 3.373} { // 0.05 % above, from tables
		if got := quantile(threshold, freedom); math.Abs(got-want) > 0.01 {
			t.Errorf("%d degrees of freedom: %.4f, want %.3f", freedom, got, want)
		}
	}
}
