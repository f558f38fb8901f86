package orchestrator_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/iota-train/iota/role/orchestrator"
)

func TestHoweverALogIsCutTheAuditShareOfItsWorkIsDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0.001, 1).Draw(t, "share")
		total := rapid.Float64Range(0.1, 100).Draw(t, "total")
		work := total * rapid.Float64Range(0, 1).Draw(t, "part")
		closing, other := orchestrator.Weights(share, work, total)
		drawn := closing*work + other*(total-work)
		switch p := share / orchestrator.Replays; {
		case math.Abs(drawn/total-1) > 1e-9:
			t.Fatalf("a log of %v has weights %v and %v: by work they make %v", total, closing, other, drawn/total)
		case closing < 1 || closing > 3 || other < 0.5-1e-9 || closing < other:
			t.Fatalf("weights %v and %v", closing, other)
		case closing*p > 1+1e-9:
			t.Fatalf("a chance of %v", closing*p)
		}
	})
}
