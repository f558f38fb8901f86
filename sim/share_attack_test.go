package sim

import (
	"flag"
	"fmt"
	"math"
	"testing"

	"github.com/iota-train/iota/protocol/aggregate"
)

var long = flag.Bool("long", false, "run the experiments of docs/results.md at full length, with three seeds")

// TestAThirdOfTheMinersCannotStopARobustRule has 4 of 12 miners share 10 or -10 times their pseudo-gradient. At its usual
// length a run ends before 10 times harms the mean.
func TestAThirdOfTheMinersCannotStopARobustRule(t *testing.T) {
	size, seeds, rules := ShareAttack{Miners: 12, Epochs: 6, Steps: 8}, uint64(1), aggregate.Names()
	if *long {
		size.Epochs, size.Steps, seeds = 12, 16, 3
	}
	if usualSeeds < 100 {
		rules = []string{aggregate.Mean, aggregate.Median} // the race detector looks at the same code
	}
	for seed := range seeds {
		size.Seed = 1 + seed
		var honest float64 // loss of the mean, which comes first
		for _, rule := range rules {
			if loss := attack(t, size, rule, 0, false); rule == aggregate.Mean {
				honest = loss
			}
			for _, invert := range []bool{false, true} {
				loss := attack(t, size, rule, 4, invert)
				worse := loss/honest > 1.1 || math.IsNaN(loss)
				if late := rule == aggregate.Mean && !invert && !*long; !late && worse != (rule == aggregate.Mean) {
					t.Errorf("%s, inverted %v: held-out loss %.3f, of an honest run %.3f", rule, invert, loss, honest)
				}
			}
		}
	}
}

// attack returns the held-out loss of a run. All liars and nobody else must be screened in every epoch.
func attack(t *testing.T, a ShareAttack, rule string, liars int, invert bool) float64 {
	t.Helper()
	a.Aggregate, a.Liars, a.Invert = rule, liars, invert
	v, err := a.Run()
	if err != nil || !v.Finished {
		t.Fatalf("%+v: finished %v, %v", a, v.Finished, err)
	}
	for i, m := range v.Miners {
		if m.Screened != (i < liars) {
			t.Errorf("%+v: miner %d: screened is %v", a, i+1, m.Screened)
		}
	}
	if want := uint64(liars * a.Epochs); v.Counters.Screened != want {
		t.Errorf("%+v: %d shares screened, want %d", a, v.Counters.Screened, want)
	}
	what := "nobody lies"
	if liars > 0 {
		what = fmt.Sprintf("%d liars, inverted %v", liars, invert)
	}
	t.Logf("seed %d, %s, %s: %.3f nats", a.Seed, rule, what, v.Counters.LossEval)
	return v.Counters.LossEval
}
