package sim

import (
	"fmt"

	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// verdictsAreTrue: no miner has a failed verdict and no validator is withdrawn that never erred, whatever others say of
// it, as long as no two judges lie.
func (l *laws) verdictsAreTrue([]*message.Outbound) error {
	o, liars := l.core(), 0
	for _, m := range l.sim.validators {
		if m.erred {
			liars++
		}
	}
	if liars > 1 {
		return nil
	}
	for i, m := range o.Miners {
		if m.Failed > 0 && !l.sim.find(m.Key).erred {
			return fmt.Errorf("miner %d never erred and failed an audit: %v", i+1, o.Evidence)
		}
	}
	for i, v := range o.Validators {
		if v.Barred != "" && !l.sim.find(v.Key).erred {
			return fmt.Errorf("validator %d never erred and was withdrawn: %s", i+1, v.Barred)
		}
	}
	return nil
}

// auditsAreBounded: an audit ends with its challenge window, a judge has one at a time, and no lease outlives its end.
func (l *laws) auditsAreBounded([]*message.Outbound) error {
	o, at := l.core(), map[string]uint64{}
	if o.Finished {
		return nil
	}
	window := uint64(l.sim.config.Manifest.GetRules().GetChallengeWindow())
	for _, a := range o.Audits {
		if o.Epoch > a.Epoch+window {
			return fmt.Errorf("audit %d of epoch %d is still open in epoch %d", a.Number, a.Epoch, o.Epoch)
		}
		for _, lease := range a.Leases {
			who := fmt.Sprint(lease.Judge)
			if other, ok := at[who]; ok {
				return fmt.Errorf("judge %s has audits %d and %d at once", who, other, a.Number)
			}
			at[who] = a.Number
			if o.Now >= lease.Until {
				return fmt.Errorf("the lease of audit %d outlives its end at %s", a.Number, seconds(lease.Until))
			}
		}
	}
	return nil
}

// sharesAreSecret: while shares are given, no order of the epoch names one. A blob is found by its hash and by nothing
// else, so nobody can give another's share of the same epoch for its own.
func (l *laws) sharesAreSecret(out []*message.Outbound) error {
	o := l.core()
	if o.Phase != orchestrator.Sharing {
		return nil
	}
	secret := map[string]bool{}
	for _, s := range o.Stages {
		for _, me := range s.Cohort {
			for _, share := range me.Shares {
				secret[string(share.Hash)] = true
			}
		}
	}
	for _, order := range out {
		t := order.GetOrder().GetTask()
		for _, ref := range t.GetInputs() {
			if t.GetId().GetEpoch() == o.Epoch && secret[string(ref.GetHash())] {
				return fmt.Errorf("%s is ordered with a share while shares are still given", t.GetId().Key())
			}
		}
	}
	return nil
}
