package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// ShareAttack is an experiment: one stage of preset nano, some of whose miners share a multiple of their pseudo-gradient
// and are honest in all else. Nothing stops them but the rule by which shares are merged.
type ShareAttack struct {
	Aggregate     string
	Miners, Liars int  // the liars join first
	Invert        bool // the liars share -10 times what they should, instead of 10 times
	Epochs, Steps int  // Steps: inner steps of an epoch, of one micro-batch each
	Seed          uint64
}

// Run trains for real to the end. Counters.LossEval of the view is the loss on the same 64 held-out micro-batches, whatever
// the rule and the attack.
func (a ShareAttack) Run() (orchestrator.View, error) {
	var c Scenario
	defer c.Close()
	_, err := c.Do(fmt.Sprintf("network real stages=1 miners=%d aggregate=%s epochs=%d h=%d seed=%d heldout=64", a.Miners,
		a.Aggregate, a.Epochs, a.Steps, a.Seed))
	if err != nil {
		return orchestrator.View{}, err
	}
	s, lie := c.Sim(), "scale"
	if a.Invert {
		lie = "invert"
	}
	for i := range a.Liars {
		if err := s.Machine(i+1).Err(lie, math.MaxInt, a.Seed+uint64(i), message.TaskKind_SHARE); err != nil {
			return orchestrator.View{}, err
		}
	}
	s.Run(s.Finished, time.Duration(a.Epochs)*time.Hour)
	return s.View(), s.Err()
}
