package optim

import (
	"errors"
	"math"

	"github.com/iota-train/iota/learn/kernel"
)

// Schedule gives the learning rate as a function of the progress of a run, in
// any unit that the caller likes: tokens, micro-batches, seconds, or a share of
// the whole. The rate rises in a straight line from Peak/100 to Peak over WarmUp,
// then falls along half a cosine to Floor at Total. With Total 0, a run without
// an end, it stays at Peak.
type Schedule struct {
	Peak   float64
	Floor  float64
	WarmUp float64 // progress at which the rate reaches Peak; 0 for no warm-up
	Total  float64 // progress at which the run ends; 0 for never
}

// Validate returns an error of one line for numbers that make no schedule.
func (s Schedule) Validate() error {
	finite := func(x float64) bool { return x >= 0 && x <= math.MaxFloat64 }
	switch {
	case !(s.Peak > 0) || !finite(s.Peak):
		return errors.New("schedule: the peak learning rate must be a number above 0")
	case !(s.Floor >= 0 && s.Floor <= s.Peak):
		return errors.New("schedule: the last learning rate must lie between 0 and the peak")
	case !finite(s.WarmUp) || !finite(s.Total):
		return errors.New("schedule: warm-up and total must be numbers from 0")
	case s.Total > 0 && s.WarmUp > s.Total:
		return errors.New("schedule: the warm-up is longer than the run")
	}
	return nil
}

// Rate returns the learning rate at a progress. Progress beyond the end counts
// as the end, below 0 and NaN as 0. The cosine is package kernel's.
func (s Schedule) Rate(progress float64) float32 {
	if !(progress > 0) {
		progress = 0
	}
	if progress < s.WarmUp {
		share := progress / s.WarmUp
		return float32(s.Peak * (0.01 + float64(0.99*share)))
	}
	if s.Total <= 0 {
		return float32(s.Peak)
	}
	share := 1.0
	if progress < s.Total {
		share = (progress - s.WarmUp) / (s.Total - s.WarmUp)
	}
	half := 0.5 * (1 + kernel.Cos(float64(math.Pi*share)))
	return float32(s.Floor + float64((s.Peak-s.Floor)*half))
}
