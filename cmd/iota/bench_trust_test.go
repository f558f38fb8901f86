package main

import (
	"context"
	"testing"
)

// Whoever cheats all the time is caught within three epochs and earns nothing, and no honest participant is wronged.
// `iota bench trust --seeds 40` measures more kinds, rates and networks; docs/results.md has its table.
func TestCheatersAreCaughtAndNotPaid(t *testing.T) {
	b := trustBench{
		kinds: []string{"free-rider", "bad-reduce", "collude-reduce", "lazy"}, rates: []float64{1}, seeds: 3, from: 1,
		stages: 3, miners: 12, validators: 1, speed: 4, epochs: 5, innerSteps: 8, commitEvery: 1, auditShare: 0.35, shardShare: 1,
		aggregate: "mean", challengeWindow: 4,
	}
	if err := b.check(); err != nil {
		t.Fatal(err)
	}
	table, err := b.measure(context.Background(), func(trustRow) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range table {
		if row.wronged > 0 || row.stuck > 0 {
			t.Errorf("%s: %d honest participants wronged, %d networks stuck", row.name(), row.wronged, row.stuck)
		}
		if row.kind != "" && (row.within3 < row.networks || row.earned > 0) {
			t.Errorf("%s: %d of %d caught within three epochs, earned %.2f", row.name(), row.within3, row.networks, row.earned)
		}
	}
}
