package clasp

import (
	"maps"
	"slices"
)

// The model: loss = trend(time) + the sum over stages of the effect of the stage's miner + noise.
const (
	// trendSamples is about how many samples lie between two knots of the trend, which is linear from knot to knot. That
	// follows a falling loss, and keeps who joined late from being credited with it.
	trendSamples = 64
	// maxSegments is how many stretches between knots there are at most.
	maxSegments = 64
	// ridge is the weight, in samples, of a prior that every effect is 0. It decides only what the samples leave open:
	// the mean effect of a stage, which is the trend's as well, and miners that no sample tells apart.
	ridge = 1e-3
	// maxColumns bounds the effects, and so the time of an evaluation. With more miners in the window, those with the
	// fewest samples are not told apart.
	maxColumns = 512
	// leastFreedom is how many samples there must be beyond the number of columns.
	leastFreedom = 20
)

// column is one effect to be found.
type column struct {
	stage, miner int // miner -1: all those of the stage that have too few samples
	samples      int
}

// fit is the model fitted to a window.
type fit struct {
	n, stages, segments int
	columns             []column
	of                  []int // column of each sample's miners, stages for each sample
	losses              []float64
	inverse             matrix    // of the normal equations: columns, then segments + 1 knots
	beta                []float64 // effects, then the trend at its knots
	noise               []float64 // variance of the losses by segment
	spread              float64   // variance of the losses
	allowance           []float64 // nats, by column
	freedom             int       // samples beyond the number of columns
}

// newFit fits the model. It returns nil if the samples are too few.
func newFit(w *Window) *fit {
	f := &fit{n: w.Len(), stages: w.Stages}
	f.segments = min(max(1, f.n/trendSamples), maxSegments)
	f.findColumns(w)
	f.freedom = f.n - len(f.columns) - f.segments - 1
	if f.freedom < leastFreedom {
		return nil
	}
	f.takeLosses(w)
	f.inverse = f.normal()
	if !f.inverse.invert() {
		return nil
	}
	f.solve()
	f.allow(w)
	return f
}

// takeLosses reads the losses, those beyond all sense as the nearest that are not: no sum may drown the others.
func (f *fit) takeLosses(w *Window) {
	f.losses = make([]float64, f.n)
	for i := range f.losses {
		f.losses[i] = w.loss(i)
	}
	middle := median(slices.Clone(f.losses))
	for i, l := range f.losses {
		f.losses[i] = min(max(l, middle-farthest), middle+farthest)
	}
}

// findColumns gives a column to every miner with enough samples, in order of stage and number.
func (f *fit) findColumns(w *Window) {
	counts := make([]map[int]int, f.stages)
	for s := range counts {
		counts[s] = map[int]int{}
	}
	for i := range f.n {
		for s, m := range w.path(i) {
			counts[s][int(m)]++
		}
	}
	for least := MinSamples; ; least *= 2 {
		if f.columns = pick(counts, least); len(f.columns) <= maxColumns || least > f.n {
			break
		}
	}
	place := make([]map[int]int, f.stages)
	for s := range place {
		place[s] = map[int]int{}
	}
	for c, col := range f.columns {
		place[col.stage][col.miner] = c
	}
	f.of = make([]int, 0, f.n*f.stages)
	for i := range f.n {
		for s, m := range w.path(i) {
			c, ok := place[s][int(m)]
			if !ok {
				c = place[s][-1]
			}
			f.of = append(f.of, c)
		}
	}
}

// pick returns the columns if a miner needs so many samples for its own.
func pick(counts []map[int]int, least int) []column {
	var list []column
	for s, count := range counts {
		rest := column{s, -1, 0}
		var own []column
		for _, m := range slices.Sorted(maps.Keys(count)) {
			if n := count[m]; n >= least {
				own = append(own, column{s, m, n})
			} else {
				rest.samples += n
			}
		}
		if rest.samples > 0 {
			list = append(list, rest)
		}
		list = append(list, own...)
	}
	return list
}

// segment returns the stretch of time that a sample lies in, and how far along it is, from 0 to 1.
func (f *fit) segment(i int) (int, float64) {
	at := i * f.segments
	return at / f.n, float64(at%f.n) / float64(f.n)
}

func (f *fit) segmentOf(i int) int {
	g, _ := f.segment(i)
	return g
}

// bySegment calls do with the samples of each segment: from, and before to.
func (f *fit) bySegment(do func(g, from, to int)) {
	for g := range f.segments {
		do(g, (g*f.n+f.segments-1)/f.segments, ((g+1)*f.n+f.segments-1)/f.segments)
	}
}

// entries calls do with the entries of a sample's row that are not 0.
func (f *fit) entries(i int, do func(col int, x float64)) {
	for _, c := range f.of[i*f.stages : (i+1)*f.stages] {
		do(c, 1)
	}
	g, x := f.segment(i)
	do(len(f.columns)+g, 1-x)
	do(len(f.columns)+g+1, x)
}

// at is the product of a sample's row with a vector.
func (f *fit) at(i int, v []float64) float64 {
	sum := 0.0
	for _, c := range f.of[i*f.stages : (i+1)*f.stages] {
		sum += v[c]
	}
	return sum + f.trend(i, v)
}

// trend is the part of at that belongs to the time of the sample.
func (f *fit) trend(i int, v []float64) float64 {
	g, x := f.segment(i)
	knots := v[len(f.columns)+g:]
	return float64(knots[0]*(1-x)) + float64(knots[1]*x)
}

// normal returns the lower triangle of the normal equations.
func (f *fit) normal() matrix {
	a := newMatrix(len(f.columns) + f.segments + 1)
	for j := range a.n {
		a.x[j*a.n+j] = ridge
	}
	for i := range f.n {
		f.entries(i, func(c int, x float64) {
			row := a.row(c)
			f.entries(i, func(d int, y float64) {
				if d <= c {
					row[d] += float64(x * y)
				}
			})
		})
	}
	return a
}
