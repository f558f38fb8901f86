package clasp

import (
	"cmp"
	"math"
	"slices"
)

// leastCompared is how many comparisons the robust scale needs; with fewer, it is 1.
const leastCompared = 6

// Effects returns the effect of every miner in the window, in order of stage and number.
//
// An effect stands against the mean of the stage's other miners that are not flagged. The worst miner above the
// threshold is flagged, what its stage's others are compared with is found anew, and so on: a bad miner does not shift
// its peers. Errors take the noise of each sample from its time; a robust scale over all comparisons, 1 at least, widens
// them where honest miners differ by more than noise, as replicas do that took different numbers of inner steps.
//
// A miner is flagged for effects in either direction: spoilt work raises the loss, and the last stage's miners, who state
// it, could lower it by a lie. Up to half of a stage can be bad; of two that differ, the one with the higher loss is
// flagged. One that is the only one of its stage, or has too few samples, is never flagged.
func (w *Window) Effects() []Effect {
	f := newFit(w)
	if f == nil {
		return w.counts()
	}
	c := &comparison{fit: f, effects: make([]Effect, len(f.columns))}
	for i, col := range f.columns {
		c.effects[i] = Effect{Stage: col.stage, Miner: col.miner, Samples: col.samples, Allowance: f.allowance[i]}
	}
	for s := range f.stages {
		c.compare(s)
	}
	limit := quantile(threshold, f.freedom)
	for {
		c.standardise()
		worst := c.worst(limit)
		if worst < 0 {
			break
		}
		c.effects[worst].Flagged = true
		c.compare(c.effects[worst].Stage)
	}
	return c.list(w)
}

// comparison compares the miners of each stage.
type comparison struct {
	*fit
	effects []Effect // by column
}

// compare sets effects and errors of a stage's miners.
func (c *comparison) compare(stage int) {
	var own []int
	all := newContrast(c.inverse.n)
	for i, e := range c.effects {
		if e.Stage != stage || e.Miner < 0 {
			continue
		}
		own = append(own, i)
		if !e.Flagged {
			all.add(c.fit, i, 1)
		}
	}
	for _, i := range own {
		e := &c.effects[i]
		peers := all.clone()
		if !e.Flagged {
			peers.add(c.fit, i, -1)
		}
		e.Peers, e.Effect, e.Error = peers.miners, 0, 0
		if e.Peers > 0 {
			peers.against(c.fit, i)
			e.Effect, e.Error = peers.effect, math.Sqrt(c.variance(peers.weights))
		}
	}
}

// contrast is a sum of effects: what it is, of how many miners, and the row of the inverse that belongs to it.
type contrast struct {
	effect  float64
	miners  int
	weights []float64
}

func newContrast(n int) *contrast { return &contrast{weights: make([]float64, n)} }

func (t *contrast) clone() *contrast {
	return &contrast{t.effect, t.miners, slices.Clone(t.weights)}
}

// add adds the effect of a column, or takes it away: sign is 1 or -1.
func (t *contrast) add(f *fit, i int, sign int) {
	x := float64(sign)
	t.effect += float64(x * f.beta[i])
	t.miners += sign
	for k, v := range f.inverse.row(i) {
		t.weights[k] += float64(x * v)
	}
}

// against turns a sum into the difference between a column's effect and the mean of the sum.
func (t *contrast) against(f *fit, i int) {
	n := float64(t.miners)
	t.effect = f.beta[i] - t.effect/n
	for k, v := range f.inverse.row(i) {
		t.weights[k] = v - t.weights[k]/n
	}
}

// variance is that of a contrast: of the samples, each with the noise of its time, and of the prior, which keeps the
// error large for what no sample tells.
func (f *fit) variance(weights []float64) float64 {
	sum := float64(ridge * f.spread * dot(weights, weights))
	for i := range f.n {
		x := f.at(i, weights)
		sum += float64(f.noise[f.segmentOf(i)] * float64(x*x))
	}
	return sum
}

// standardise sets every Z.
func (c *comparison) standardise() {
	scale := c.scale()
	for i := range c.effects {
		e := &c.effects[i]
		e.Z = 0
		if e.Peers > 0 {
			e.Z = beyond(e.Effect, e.Allowance) / e.Error / scale
		}
	}
}

// scale is by how much effects exceed their errors, 1 at least: the median absolute deviation of all that are not flagged
// from the median of their stage, which one bad miner among three shifts little, unlike the mean of its peers.
func (c *comparison) scale() float64 {
	var sizes []float64
	for s := range c.stages {
		var own []int
		var found []float64
		for i, e := range c.effects {
			if e.Stage == s && e.Peers > 0 && !e.Flagged {
				own, found = append(own, i), append(found, c.beta[i])
			}
		}
		slices.Sort(found)
		n := len(found)
		for _, i := range own {
			middle := (found[(n-1)/2] + found[n/2]) / 2
			x := (c.beta[i] - middle) * float64(n) / float64(max(1, n-1)) // as if against its peers alone
			sizes = append(sizes, math.Abs(beyond(x, c.effects[i].Allowance))/c.effects[i].Error)
		}
	}
	if len(sizes) < leastCompared {
		return 1
	}
	return max(1, mad*median(sizes))
}

// beyond is how far x lies outside [-bound, bound], with its sign.
func beyond(x, bound float64) float64 { return x - clip(x, bound) }

// worst returns the most suspicious column above the limit that is not flagged, or -1.
func (c *comparison) worst(limit float64) int {
	worst := -1
	for i, e := range c.effects {
		if e.Peers == 0 || e.Flagged || math.Abs(e.Z) <= limit {
			continue
		}
		if worst < 0 || e.suspicion() > c.effects[worst].suspicion() {
			worst = i
		}
	}
	return worst
}

// suspicion orders miners. Spoilt work raises the loss: a loss that is too low is less suspicious than one that is as
// much too high, which decides where as many miners of a stage are on either side.
func (e *Effect) suspicion() float64 { return max(e.Z, -e.Z/1.5) }

// list returns the effects in order, those of the miners with too few samples among them.
func (c *comparison) list(w *Window) []Effect {
	list := w.counts()
	for i, e := range list {
		at, ok := slices.BinarySearchFunc(c.effects, e, order)
		if ok {
			list[i] = c.effects[at]
		}
	}
	return list
}

// counts returns the miners of the window and their samples.
func (w *Window) counts() []Effect {
	type key struct{ stage, miner int }
	counts := map[key]int{}
	for i := range w.Len() {
		for s, m := range w.path(i) {
			counts[key{s, int(m)}]++
		}
	}
	list := make([]Effect, 0, len(counts))
	for k, n := range counts {
		list = append(list, Effect{Stage: k.stage, Miner: k.miner, Samples: n})
	}
	slices.SortFunc(list, order)
	return list
}

// order is by stage, then by number.
func order(a, b Effect) int {
	return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Miner, b.Miner))
}

// quantile is what Student's t with so many degrees of freedom exceeds as often as a normal number exceeds z, by its
// expansion in 1/freedom (Abramowitz and Stegun, 26.7.5).
func quantile(z float64, freedom int) float64 {
	n, z3 := float64(freedom), float64(z*z*z)
	z5 := float64(z3 * z * z)
	first := (z3 + z) / 4
	second := (float64(5*z5) + float64(16*z3) + float64(3*z)) / 96
	return z + first/n + second/float64(n*n)
}
