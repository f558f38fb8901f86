package clasp

import (
	"math/rand/v2"

	"pgregory.net/rapid"
)

// place is a miner's place: its stage, and its number within it.
type place struct{ stage, miner int }

// game draws losses from known effects.
type game struct {
	stages, miners int
	effects        map[place]float64          // nats, 0 if none
	noise          float64                    // standard deviation, nats
	trend          func(at float64) float64   // at runs from 0 to 1; nil for a constant
	from           map[place]float64          // when a miner joined, 0 if none
	shape          func(d *rand.Rand) float64 // of the noise, with variance 1; nil for normal numbers
}

// number is the miner's, over all stages.
func (g game) number(p place) int { return p.stage*g.miners + p.miner }

// play returns a window of so many samples, 100 in an epoch. Equal seeds draw equal pathways and noise.
func (g game) play(samples int, seed uint64) *Window {
	d := rand.New(rand.NewPCG(seed, 1))
	w := NewWindow(g.stages, samples)
	path := make([]int, g.stages)
	for i := range samples {
		at := float64(i) / float64(samples)
		loss := 3.0
		if g.trend != nil {
			loss = g.trend(at)
		}
		for s := range path {
			p := place{s, d.IntN(g.miners)}
			for at < g.from[p] {
				p.miner = d.IntN(g.miners)
			}
			path[s] = g.number(p)
			loss += g.effects[p]
		}
		x := d.NormFloat64()
		if g.shape != nil {
			x = g.shape(d)
		}
		w.Add(uint64(i/100), path, loss+g.noise*x)
	}
	return &w
}

// truth is what Effects should find for a miner: its effect against the mean of those it was compared with.
func (g game) truth(list []Effect, e Effect) float64 {
	sum, n := 0.0, 0.0
	for _, o := range list {
		if o.Stage == e.Stage && o.Miner != e.Miner && !o.Flagged && o.Samples >= MinSamples {
			sum += g.effects[place{o.Stage, o.Miner - o.Stage*g.miners}]
			n++
		}
	}
	return g.effects[place{e.Stage, e.Miner - e.Stage*g.miners}] - sum/n
}

// find returns the effect of a miner.
func find(t rapid.TB, list []Effect, miner int) Effect {
	t.Helper()
	for _, e := range list {
		if e.Miner == miner {
			return e
		}
	}
	t.Fatalf("no effect of miner %d", miner)
	return Effect{}
}

// falling is a loss that falls by two nats, first fast, then slowly.
func falling(at float64) float64 { return 2 + 2/(1+9*at)*1.1 }
