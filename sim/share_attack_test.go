package sim

import (
	"fmt"
	"math"
	"testing"

	"github.com/iota-train/iota/protocol/aggregate"
)

// TestAThirdOfTheMinersCannotStopARobustRule has 4 of 12 miners share 10 or -10 times their pseudo-gradient. docs/results.md
// has the losses of more seeds.
func TestAThirdOfTheMinersCannotStopARobustRule(t *testing.T) {
	rules := aggregate.Names()
	if usualSeeds < 100 {
		rules = []string{aggregate.Mean, aggregate.Median} // the race detector looks at the same code
	}
	run := func(a ShareAttack) float64 {
		a.Miners, a.Epochs, a.Steps, a.Seed = 12, 12, 16, 1
		v, err := a.Run()
		if err != nil || !v.Finished {
			t.Fatalf("%+v: finished %v, %v", a, v.Finished, err)
		}
		screened := 0
		for i, m := range v.Miners {
			if m.Screened != (i < a.Liars) {
				t.Errorf("%+v: miner %d: screened is %v", a, i+1, m.Screened)
			}
			if m.Screened {
				screened++
			}
		}
		t.Logf("%s, %d liars, inverted %v: %.3f nats, %d screened in the last epoch", a.Aggregate, a.Liars, a.Invert, v.Counters.LossEval, screened)
		return v.Counters.LossEval
	}
	honest := run(ShareAttack{Aggregate: aggregate.Mean})
	for _, rule := range rules {
		for _, invert := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/inverted=%v", rule, invert), func(t *testing.T) {
				loss := run(ShareAttack{Aggregate: rule, Liars: 4, Invert: invert})
				if worse := loss/honest - 1; (rule == aggregate.Mean) != (worse > 0.1 || math.IsNaN(loss)) {
					t.Errorf("held-out loss %.3f, %+.1f %% of an honest run's", loss, 100*worse)
				}
			})
		}
	}
}
