// Package clasp attributes losses to miners: Contribution Loss Assessment via Sampling of Pathways (IOTA, section on
// CLASP). A sample is a pathway, one miner per stage, and the loss that came out at its end. Miners are drawn at random
// and independently per stage, so whoever spoils its work shows in the losses of its pathways.
//
//	w := clasp.NewWindow(stages, 4096)
//	w.Add(epoch, path, loss)         // cheap, for every acknowledged loss
//	for _, e := range w.Effects() {  // now and then
//		if e.Flagged { ... }
//	}
//
// Effects are found by least squares over all samples of the window (fit.go) and compared with those of the miners of
// the same stage (effects.go). Results are float64 in a fixed order of summation: equal windows give equal bits on every
// machine. docs/clasp.md derives the numbers.
package clasp

import "math"

// The stated rate of false flags and what it rests on.
const (
	// FalseRate bounds the probability that an honest miner is flagged in one window, where samples are independent and
	// honest miners of a stage differ by no more than the robust scale takes in.
	FalseRate = 0.001
	// threshold is the z that a normal number exceeds in either direction with probability FalseRate.
	threshold = 3.2905
	// MinSamples is how many samples a miner needs before it is compared.
	MinSamples = 20
)

// Window holds the newest samples. Its fields are exported for encoding only. The zero value takes in nothing.
type Window struct {
	Stages   int
	Capacity int
	Count    uint64    // samples ever taken in
	Losses   []float64 // nats; sample k, counted from 0, lies at k mod Capacity
	Epochs   []uint64  // in which the loss came out
	Paths    []int32   // miners by stage, Stages for each sample
}

// NewWindow returns an empty window for pathways of so many stages that keeps the newest samples.
func NewWindow(stages, capacity int) Window {
	return Window{Stages: max(0, stages), Capacity: max(0, capacity)}
}

// Add takes in the loss, in nats, of a pathway, which names a miner per stage by any number from 0. Samples come in the
// order of time; replicas of a stage are equal whenever an epoch begins. It reports false and changes nothing for what is
// no sample: a loss that is not finite, a pathway of another length or with a gap.
func (w *Window) Add(epoch uint64, path []int, loss float64) bool {
	if w.Stages == 0 || w.Capacity == 0 || len(path) != w.Stages || math.IsNaN(loss) || math.IsInf(loss, 0) {
		return false
	}
	for _, m := range path {
		if m < 0 || m > math.MaxInt32 {
			return false
		}
	}
	if len(w.Losses) < w.Capacity {
		w.Losses, w.Epochs = append(w.Losses, 0), append(w.Epochs, 0)
		w.Paths = append(w.Paths, make([]int32, w.Stages)...)
	}
	at := int(w.Count % uint64(w.Capacity))
	w.Losses[at], w.Epochs[at] = loss, epoch
	for s, m := range path {
		w.Paths[at*w.Stages+s] = int32(m)
	}
	w.Count++
	return true
}

// Len returns the number of samples that the window holds.
func (w *Window) Len() int { return len(w.Losses) }

// at is where the i-th sample lies, the oldest first.
func (w *Window) at(i int) int {
	if len(w.Losses) < w.Capacity {
		return i
	}
	return int((w.Count + uint64(i)) % uint64(w.Capacity))
}

func (w *Window) loss(i int) float64 { return w.Losses[w.at(i)] }

func (w *Window) path(i int) []int32 {
	at := w.at(i)
	return w.Paths[at*w.Stages : (at+1)*w.Stages]
}

// Effect is what the window says of one miner in one stage.
type Effect struct {
	Stage, Miner int
	Samples      int
	Peers        int     // unflagged miners of the stage that it is compared with; 0: it cannot be told from them
	Effect       float64 // nats that it adds to the loss, against the mean of its peers; 0 without peers
	Error        float64 // standard error of Effect, nats
	Allowance    float64 // nats that an honest replica may differ by, because it took fewer inner steps than others
	Z            float64 // how far Effect exceeds Allowance in either direction, in robust standard errors
	Flagged      bool
}
