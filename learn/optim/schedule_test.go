package optim

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestScheduleAtItsCorners(t *testing.T) {
	run := Schedule{Peak: 4e-3, Floor: 4e-4, WarmUp: 0.1, Total: 1}
	endless := Schedule{Peak: 4e-3, WarmUp: 1000}
	for _, c := range []struct {
		name string
		s    Schedule
		at   float64
		want float64
	}{
		{"it starts at a hundredth", run, 0, 4e-5},
		{"half of the warm-up", run, 0.05, 4e-3 * 0.505},
		{"the peak", run, 0.1, 4e-3},
		{"half of the cosine", run, 0.55, 2.2e-3},
		{"the end", run, 1, 4e-4},
		{"beyond the end", run, 7, 4e-4},
		{"before the start", run, -1, 4e-5},
		{"not a number", run, math.NaN(), 4e-5},
		{"a run without end stays at the peak", endless, 1e12, 4e-3},
		{"a run without end warms up", endless, 500, 4e-3 * 0.505},
		{"no warm-up starts at the peak", Schedule{Peak: 1, Total: 1}, 0, 1},
		{"all warm-up ends at the floor", Schedule{Peak: 1, WarmUp: 1, Total: 1}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.s.Validate(); err != nil {
				t.Fatal(err)
			}
			if got := float64(c.s.Rate(c.at)); math.Abs(got-c.want) > 1e-7*c.s.Peak {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestScheduleRisesThenFallsWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{
			Peak:   rapid.Float64Range(1e-4, 1).Draw(t, "peak"),
			WarmUp: rapid.Float64Range(0, 1).Draw(t, "warm-up"),
			Total:  1,
		}
		s.Floor = s.Peak * rapid.Float64Range(0, 1).Draw(t, "floor")
		a := rapid.Float64Range(0, 1).Draw(t, "a")
		b := rapid.Float64Range(a, 1).Draw(t, "b")
		x, y := s.Rate(a), s.Rate(b)
		if x < 0 || float64(x) > s.Peak*(1+1e-7) {
			t.Fatalf("rate %v", x)
		}
		if b < s.WarmUp && y < x || a >= s.WarmUp && y > x {
			t.Fatalf("rate %v at %v, %v at %v", x, a, y, b)
		}
	})
}

func TestScheduleRefusesNumbersThatMakeNone(t *testing.T) {
	for name, s := range map[string]Schedule{
		"no peak":            {Total: 1},
		"negative peak":      {Peak: -1},
		"infinite peak":      {Peak: math.Inf(1)},
		"not a number":       {Peak: math.NaN()},
		"floor above peak":   {Peak: 1, Floor: 2},
		"negative floor":     {Peak: 1, Floor: -1},
		"negative warm-up":   {Peak: 1, WarmUp: -1},
		"endless warm-up":    {Peak: 1, WarmUp: math.Inf(1)},
		"longer than a run":  {Peak: 1, WarmUp: 2, Total: 1},
		"negative total":     {Peak: 1, Total: -1},
		"total not a number": {Peak: 1, Total: math.NaN()},
	} {
		t.Run(name, func(t *testing.T) {
			if s.Validate() == nil {
				t.Error("it passed")
			}
		})
	}
}
