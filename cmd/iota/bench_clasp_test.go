package main

import (
	"context"
	"testing"
)

// TestTheReferenceCaseOfClaspKeepsItsPromise plays the case that the documents quote.
func TestTheReferenceCaseOfClaspKeepsItsPromise(t *testing.T) {
	b := claspBench{trials: 20, seed: 1}
	report, err := b.measure(context.Background(), []claspCase{claspReference, claspCases()[1]})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		switch {
		case r.Metric == "detection" && r.Value < 0.95, r.Metric == "false_flags" && r.Value > 0.01,
			r.Metric == "peer_shift" && r.Value > 0.1:
			t.Errorf("%s: %s %v", r.Case, r.Metric, r.Value)
		}
	}
}

func TestEveryCaseOfClaspCanBePlayed(t *testing.T) {
	for _, c := range claspCases() {
		b := claspBench{claspCase: c, trials: 1}
		if err := b.check(); err != nil {
			t.Errorf("case %s: %v", c.name, err)
		}
	}
}
