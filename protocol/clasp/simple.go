package clasp

import "math"

// Marginal returns what the paper's words say most plainly: the mean loss of a miner's samples, against the mean of
// those means over its stage. It is here to be compared with Effects: one bad miner among M shifts its peers by 1/M of
// its effect the other way, a falling loss counts for those who came late, and what the other stages do counts as noise.
func (w *Window) Marginal() []Effect {
	return w.simple(func(e *Effect, own, all sums, means, miners float64) {
		e.Effect = own.mean() - means/miners
		e.Error = math.Sqrt(all.variance() / own.n)
	})
}

// LeaveOneOut returns the mean loss of a miner's samples against the mean of all other samples. It shares the faults of
// Marginal.
func (w *Window) LeaveOneOut() []Effect {
	return w.simple(func(e *Effect, own, all sums, _, _ float64) {
		rest := sums{n: all.n - own.n, x: all.x - own.x}
		e.Effect = own.mean() - rest.mean()
		e.Error = math.Sqrt(all.variance() * (1/own.n + 1/rest.n))
	})
}

// simple compares means, by the same rules as Effects where they apply: whom it compares, and the threshold.
func (w *Window) simple(compare func(e *Effect, own, all sums, means, miners float64)) []Effect {
	list := w.counts()
	places := map[[2]int]int{}
	for i, e := range list {
		places[[2]int{e.Stage, e.Miner}] = i
	}
	own := make([]sums, len(list))
	var all sums
	for i := range w.Len() {
		all.add(w.loss(i))
		for s, m := range w.path(i) {
			own[places[[2]int{s, int(m)}]].add(w.loss(i))
		}
	}
	means, miners := make([]float64, w.Stages), make([]float64, w.Stages)
	for i, e := range list {
		if e.Samples >= MinSamples {
			means[e.Stage] += own[i].mean()
			miners[e.Stage]++
		}
	}
	for i := range list {
		e := &list[i]
		if e.Samples < MinSamples || miners[e.Stage] < 2 {
			continue
		}
		e.Peers = int(miners[e.Stage]) - 1
		if compare(e, own[i], all, means[e.Stage], miners[e.Stage]); e.Error > 0 {
			e.Z = e.Effect / e.Error
		}
		e.Flagged = math.Abs(e.Z) > threshold
	}
	return list
}

// sums are those of some losses.
type sums struct{ n, x, xx float64 }

func (s *sums) add(x float64) {
	s.n++
	s.x += x
	s.xx += float64(x * x)
}

func (s *sums) mean() float64 { return s.x / s.n }

func (s *sums) variance() float64 {
	return max(0, (s.xx-float64(s.x*s.mean()))/(s.n-1))
}
