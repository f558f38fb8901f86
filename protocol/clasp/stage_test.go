package clasp

import (
	"math"
	"testing"
)

// TestSmallStages says what can be known of few miners, and what cannot.
func TestSmallStages(t *testing.T) {
	for name, c := range map[string]struct {
		game    game
		flagged []int
	}{
		"a miner alone in its stage is not flagged": {
			game{stages: 1, miners: 1, effects: map[place]float64{{0, 0}: 2}}, nil},
		"of two the worse is flagged": {
			game{stages: 3, miners: 2, effects: map[place]float64{{1, 1}: 0.5}}, []int{3}},
		"two that are equally bad cannot be told": {
			game{stages: 3, miners: 2, effects: map[place]float64{{1, 0}: 0.5, {1, 1}: 0.5}}, nil},
		"two of four are bad": {
			game{stages: 3, miners: 4, effects: map[place]float64{{1, 0}: 0.5, {1, 1}: 0.6}}, []int{4, 5}},
		"half of everybody passes for the spread of honest miners": {
			game{stages: 2, miners: 4, effects: map[place]float64{{0, 0}: 0.5, {0, 1}: 0.5, {1, 0}: 0.5, {1, 1}: 0.5}}, nil},
		"one miner in a stage, one bad in the next": {
			game{stages: 2, miners: 3, effects: map[place]float64{{0, 0}: 0.7}}, []int{0}},
		"bad miners in every stage": {
			game{stages: 3, miners: 4, effects: map[place]float64{{0, 0}: 0.5, {1, 1}: 0.5, {2, 2}: 0.5}}, []int{0, 5, 10}},
		"a loss that is too low may be a lie": {
			game{stages: 3, miners: 4, effects: map[place]float64{{2, 1}: -0.5}}, []int{9}},
	} {
		t.Run(name, func(t *testing.T) {
			c.game.noise = 0.3
			var flagged []int
			for _, e := range c.game.play(2000, 5).Effects() {
				if e.Flagged {
					flagged = append(flagged, e.Miner)
				}
				if c.game.miners == 1 && e.Peers != 0 {
					t.Errorf("%+v has peers", e)
				}
			}
			if len(flagged) != len(c.flagged) {
				t.Fatalf("flagged %v, want %v", flagged, c.flagged)
			}
			for i := range flagged {
				if flagged[i] != c.flagged[i] {
					t.Fatalf("flagged %v, want %v", flagged, c.flagged)
				}
			}
		})
	}
}

func TestMinersThatNoSampleTellsApartAreNotFlagged(t *testing.T) {
	w := NewWindow(2, 1000)
	for i := range 1000 {
		m := i % 2
		w.Add(uint64(i/100), []int{m, 2 + m}, 3+float64(m)+0.1*float64(i%7)) // 0 always meets 2, 1 always 3
	}
	for _, e := range w.Effects() {
		if e.Flagged || e.Error < 1 {
			t.Errorf("%+v", e)
		}
	}
}

func TestAMinerWithFewSamplesIsNotCompared(t *testing.T) {
	g := game{stages: 2, miners: 4, noise: 0.1, from: map[place]float64{{0, 3}: 0.9}, effects: map[place]float64{{0, 3}: 5}}
	list := g.play(400, 1).Effects()
	if e := find(t, list, 3); e.Samples >= MinSamples || e.Samples == 0 || e.Peers != 0 || e.Flagged {
		t.Errorf("%+v", e)
	}
	for _, e := range list {
		if e.Flagged || e.Miner != 3 && math.Abs(e.Effect) > 4*e.Error {
			t.Errorf("%+v", e)
		}
	}
}

func TestOneNumberInTwoStagesIsTwoMiners(t *testing.T) {
	g := game{stages: 2, miners: 3, noise: 0.2, effects: map[place]float64{{0, 1}: 0.5}}
	w := g.play(1000, 1)
	for i, m := range w.Paths {
		w.Paths[i] = m % 3 // both stages have miners 0 to 2
	}
	for _, e := range w.Effects() {
		if e.Flagged != (e.Stage == 0 && e.Miner == 1) {
			t.Errorf("%+v", e)
		}
	}
}
