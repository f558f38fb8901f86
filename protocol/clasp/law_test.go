package clasp

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawGame draws a game with effects of all sizes, most of them none.
func drawGame(t *rapid.T) (game, int, uint64) {
	g := game{stages: rapid.IntRange(1, 5).Draw(t, "stages"), miners: rapid.IntRange(2, 8).Draw(t, "miners"), effects: map[place]float64{}}
	g.noise = rapid.Float64Range(0.02, 1).Draw(t, "noise")
	if rapid.Bool().Draw(t, "falling") {
		g.trend = falling
	}
	for range rapid.IntRange(0, 4).Draw(t, "bad") {
		p := place{rapid.IntRange(0, g.stages-1).Draw(t, "stage"), rapid.IntRange(0, g.miners-1).Draw(t, "miner")}
		g.effects[p] = rapid.Float64Range(0, 2).Draw(t, "effect")
	}
	return g, rapid.IntRange(200, 1500).Draw(t, "samples"), rapid.Uint64().Draw(t, "seed")
}

func TestLeastSquaresRecoversAdditiveEffects(t *testing.T) {
	var within, n, squares float64
	rapid.Check(t, func(t *rapid.T) {
		g, samples, seed := drawGame(t)
		list := g.play(samples, seed).Effects()
		for _, e := range list {
			if e.Peers == 0 {
				continue
			}
			off := (e.Effect - g.truth(list, e)) / e.Error
			if math.Abs(off) > 6 {
				t.Fatalf("%+v, truth %.4f", e, g.truth(list, e))
			}
			if n++; math.Abs(off) <= 3 {
				within++
			}
			squares += off * off
		}
	})
	if within/n < 0.99 { // a normal number lies within 3 standard errors in 99.7 %
		t.Errorf("%.4f of %v effects lie within 3 standard errors", within/n, n)
	}
	if rms := math.Sqrt(squares / n); rms > 1.1 {
		t.Errorf("errors are %.3f standard errors", rms)
	}
}

func TestTheOrderOfMinersChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, samples, seed := drawGame(t)
		w := g.play(samples, seed)
		names := rand.New(rand.NewPCG(seed, 2)).Perm(g.stages * g.miners)
		other := NewWindow(w.Stages, w.Capacity)
		for i := range w.Len() {
			var path []int
			for _, m := range w.path(i) {
				path = append(path, names[m])
			}
			other.Add(w.Epochs[i], path, w.loss(i))
		}
		list, renamed := w.Effects(), other.Effects()
		for _, e := range list {
			r := find(t, renamed, names[e.Miner])
			if r.Flagged != e.Flagged || r.Peers != e.Peers || math.Abs(r.Effect-e.Effect) > 1e-7 || math.Abs(r.Z-e.Z) > 1e-5*(1+math.Abs(e.Z)) {
				t.Fatalf("%+v became %+v", e, r)
			}
		}
	})
}

// TestRanksAreThoseOfExactShapleyValues plays small games to their end: every pathway once, and every coalition. A
// coalition's worth is the mean loss that it saves when the miners outside it are replaced by a miner without any effect.
func TestRanksAreThoseOfExactShapleyValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const stages, miners = 2, 4
		effects := make([]float64, stages*miners)
		for i, n := range rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "order") {
			effects[i] = 0.1 * float64(n)
		}
		worth := make([]float64, 1<<len(effects))
		w := NewWindow(stages, 400)
		for i := range 400 {
			a, b := i%miners, miners+i/miners%miners
			for coalition := range worth {
				for _, m := range []int{a, b} {
					if coalition>>m&1 == 1 {
						worth[coalition] -= effects[m] / 400
					}
				}
			}
			w.Add(uint64(i/100), []int{a, b}, 3+effects[a]+effects[b])
		}
		list := w.Effects()
		for s := range stages {
			order := []int{0, 1, 2, 3}
			byShapley, byEffect := slices.Clone(order), slices.Clone(order)
			slices.SortFunc(byShapley, func(x, y int) int { return cmp.Compare(shapley(worth, s*miners+y), shapley(worth, s*miners+x)) })
			beta := func(m int) float64 { // against all of the stage, flagged or not
				e := find(t, list, s*miners+m)
				rest := 0.0
				for _, o := range list {
					if o.Stage == s && o.Miner != e.Miner && !o.Flagged {
						rest += effects[o.Miner] / float64(e.Peers)
					}
				}
				return e.Effect + rest
			}
			slices.SortFunc(byEffect, func(x, y int) int { return cmp.Compare(beta(x), beta(y)) })
			if !slices.Equal(byShapley, byEffect) {
				t.Fatalf("stage %d: from best to worst %v by Shapley values, %v by effects", s, byShapley, byEffect)
			}
		}
	})
}

// shapley is a player's exact value: its mean marginal worth over all orders in which the players could join.
func shapley(worth []float64, player int) float64 {
	n := bits.Len(uint(len(worth))) - 1
	factorial := []float64{1}
	for i := 1; i <= n; i++ {
		factorial = append(factorial, factorial[i-1]*float64(i))
	}
	value := 0.0
	for coalition := range worth {
		if coalition>>player&1 == 0 {
			size := bits.OnesCount(uint(coalition))
			value += factorial[size] * factorial[n-size-1] / factorial[n] * (worth[coalition|1<<player] - worth[coalition])
		}
	}
	return value
}

func TestABadMinerLeavesItsPeersUnmoved(t *testing.T) {
	honest := game{stages: 5, miners: 10, noise: 0.3}
	bad := honest
	bad.effects = map[place]float64{{2, 4}: 0.15}
	var sizes, moved, marginal, n float64
	for seed := range uint64(40) {
		before, after := honest.play(2000, seed), bad.play(2000, seed)
		was, is, plainWas, plainIs := before.Effects(), after.Effects(), before.Marginal(), after.Marginal()
		for i, e := range is {
			if e.Stage == 2 && e.Miner != 24 {
				n++
				moved += math.Abs(e.Z - was[i].Z)
				sizes += math.Abs(e.Z) - math.Abs(was[i].Z)
				marginal += math.Abs(plainIs[i].Z - plainWas[i].Z)
			}
		}
	}
	if moved/n > 0.1 || math.Abs(sizes/n) > 0.1 {
		t.Errorf("z of honest peers moves by %.3f, |z| by %.3f", moved/n, sizes/n)
	}
	if marginal/n < 0.3 {
		t.Errorf("marginal means move by %.3f: they should, by about 0.7", marginal/n)
	}
}

func TestAFallingLossAndLateJoinersBiasNothing(t *testing.T) {
	g := game{stages: 3, miners: 5, noise: 0.3, trend: falling,
		from: map[place]float64{{0, 0}: 0.7, {1, 2}: 0.5, {2, 4}: 0.3}, effects: map[place]float64{{1, 2}: 0.4}}
	const seeds = 60
	var sum [2]float64
	var squares float64
	wrong := 0
	for seed := range uint64(seeds) {
		w := g.play(2000, seed)
		list := w.Effects()
		for _, e := range list {
			off := e.Effect - g.truth(list, e)
			if g.from[place{e.Stage, e.Miner - 5*e.Stage}] > 0 {
				sum[0] += off / e.Error
				squares++
			}
			if e.Flagged && e.Miner != 7 {
				wrong++
			}
		}
		sum[1] += find(t, w.Marginal(), 0).Effect
	}
	if mean := sum[0] / squares; math.Abs(mean) > 3/math.Sqrt(squares) {
		t.Errorf("late joiners are off by %.3f standard errors", mean)
	}
	if sum[1]/seeds > -0.2 {
		t.Errorf("marginal means credit a late joiner with %.3f nats only", sum[1]/seeds)
	}
	if wrong > 3 {
		t.Errorf("%d honest miners flagged in %d windows", wrong, seeds)
	}
}

// TestHonestMinersAreFlaggedAsRarelyAsStated counts over windows of many kinds, for whose noise nothing is assumed.
func TestHonestMinersAreFlaggedAsRarelyAsStated(t *testing.T) {
	heavy := func(d *rand.Rand) float64 { // one in ten is three times as wide
		x := d.NormFloat64() / math.Sqrt(1.8)
		if d.IntN(10) == 0 {
			x *= 3
		}
		return x
	}
	for name, c := range map[string]struct {
		game    game
		samples int
	}{
		"five stages of ten":     {game{stages: 5, miners: 10}, 2000},
		"small windows":          {game{stages: 3, miners: 4}, 150},
		"pairs":                  {game{stages: 4, miners: 2}, 500},
		"heavy tails":            {game{stages: 5, miners: 10, shape: heavy}, 2000},
		"skewed":                 {game{stages: 3, miners: 6, shape: func(d *rand.Rand) float64 { return d.ExpFloat64() - 1 }}, 600},
		"a falling loss":         {game{stages: 3, miners: 6, trend: falling}, 1000},
		"late joiners":           {game{stages: 3, miners: 6, trend: falling, from: map[place]float64{{0, 0}: 0.6, {2, 1}: 0.4}}, 1000},
		"bad miners beside them": {game{stages: 3, miners: 6, effects: map[place]float64{{0, 1}: 0.5, {2, 3}: 0.3}}, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			c.game.noise = 0.3
			flagged, compared := 0, 0
			for seed := range uint64(3000 / (c.game.stages * c.game.miners)) {
				for _, e := range c.game.play(c.samples, seed).Effects() {
					if e.Peers == 0 || c.game.effects[place{e.Stage, e.Miner - e.Stage*c.game.miners}] != 0 {
						continue
					}
					if compared++; e.Flagged {
						flagged++
					}
				}
			}
			// Fewer than 10 of 3000 where 3 are expected at most: with a probability of 0.999.
			if flagged > 10 || compared < 2000 {
				t.Errorf("%d of %d flagged", flagged, compared)
			}
		})
	}
}
