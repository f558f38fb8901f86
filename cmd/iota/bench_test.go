package main

import (
	"math"
	"testing"
)

func TestStageCasesAreTheOnesThatAreQuoted(t *testing.T) {
	want := map[string]struct {
		parameters  int
		exact, full float64 // GFLOP of a forward
	}{
		"reference": {12_849_152, 27.385, 28.454}, // full with backward: 85.36
		"t2048":     {12_849_152, 69.802, 86.973},
		"tiny":      {369_152, 0.411, 0.445},
		"small":     {4_942_080, 10.723, 11.325},
	}
	for _, c := range stageCases() {
		if err := c.config.Validate(); err != nil {
			t.Errorf("case %s: %v", c.name, err)
		}
		exact, full := c.gflop()
		w, parameters := want[c.name], c.config.StageSize(middle)
		if parameters != w.parameters || math.Abs(exact-w.exact) > 0.001 || math.Abs(full-w.full) > 0.001 {
			t.Errorf("%s: %d parameters, %.4f and %.4f GFLOP forward, want %+v", c.name, parameters, exact, full, w)
		}
	}
}

func TestTheRatioIsTheMedianOfTheRounds(t *testing.T) {
	s := series{seconds: []float64{1, 2, 4}, peaks: []float64{20, 5, 10}} // shares of 10 GFLOP: 0.5, 1, 0.25
	if got := s.ratio(10); got != 0.5 {
		t.Errorf("ratio %v, want 0.5", got)
	}
	if got := s.speed(10); got != 5 {
		t.Errorf("speed %v, want 5", got)
	}
}
