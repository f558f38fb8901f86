package orchestrator

import (
	"slices"

	"github.com/iota-train/iota/protocol/message"
)

// letGo ends the part of the miners that asked to leave and have nothing left that anybody waits for. Until then such a
// miner counts as any other, and may go without being let: nobody waits for it longer than for one that says nothing.
func (o *Orchestrator) letGo() {
	for _, m := range o.Miners {
		if !m.Leaving || !m.Connected || o.needed(m) {
			continue
		}
		o.send(m, &message.Order{Kind: &message.Order_Finished{Finished: &message.Finished{Reason: "it asked to leave: nothing of its work waits for it"}}})
		m.Leaving = false
		o.gone(m)
	}
}

// retires reports whether a leaving miner takes no new work: it has enough for the epoch's merge, or so little that it would
// not soon. One that is half way there goes on until it has enough.
func (o *Orchestrator) retires(m *miner) bool {
	return m.Leaving && (uint64(len(m.Acks)) >= o.threshold() || !o.merges(m))
}

// merges reports whether the epoch's merge will take in the miner's gradients, or soon would.
func (o *Orchestrator) merges(m *miner) bool { return 2*uint64(len(m.Acks)) >= o.threshold() }

// needed reports whether work would be lost if the miner went now: micro-batches that it holds, an order that stands,
// gradients for the merge, or states that its audits want.
func (o *Orchestrator) needed(m *miner) bool {
	return m.Held > 0 || m.Order != nil || o.merges(m) || slices.ContainsFunc(o.Audits, func(a *audit) bool {
		return a.Miner == m.Number && a.awaits() && !o.outdated(a)
	})
}
