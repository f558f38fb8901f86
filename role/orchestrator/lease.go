package orchestrator

import (
	"slices"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// lowestFactor bounds how far expired leases lower a miner's weight in the draw: it always stays a candidate.
const lowestFactor = 1.0 / 16

// expireLeases gives work that took too long to somebody else. Being late costs a miner nothing but half its weight in
// the draw, until its next timely result.
func (o *Orchestrator) expireLeases() {
	for _, f := range o.Flights {
		if f.Lease == nil || o.Now < f.Lease.Until {
			continue
		}
		m := o.Miners[f.Lease.Miner]
		o.late(m)
		o.unanswered(m)
		o.cancel(m, o.flightTask(f))
		o.release(f, f.Hop)
		f.Lease, f.Avoid = nil, m.Number+1
		o.Counters.Rerouted++
	}
	for _, m := range o.Miners {
		if m.Order != nil && m.Order.Kind == message.TaskKind_LOAD && o.Now >= m.Order.Until {
			o.late(m)
			o.unanswered(m)
			m.Order = nil
		}
	}
}

// maxUnanswered is how many leases in a row may run out without any result, a late one included, before a miner counts
// as hung: it hangs, or drops what it is given.
const maxUnanswered = 3

// unanswered notes that a miner let a lease run out. A hung one is tried again ever more rarely.
func (o *Orchestrator) unanswered(m *miner) {
	m.Unanswered++
	if tries := m.Unanswered - maxUnanswered; tries >= 0 {
		m.TryAfter = o.Now + time.Duration(o.rules.GetLease())<<min(tries, 6)
	}
}

func (m *miner) hung() bool { return m.Unanswered >= maxUnanswered }

// awake returns those who are not hung: the epoch does not wait for the others. If all are, it returns all.
func awake(list []*miner) []*miner {
	well := slices.DeleteFunc(slices.Clone(list), (*miner).hung)
	if len(well) == 0 {
		return list
	}
	return well
}

func (o *Orchestrator) late(m *miner) {
	o.Counters.LeasesExpired++
	m.demote()
}

func (o *Orchestrator) cancel(m *miner, t *message.Task) {
	o.send(m, &message.Order{Kind: &message.Order_Cancel{Cancel: &message.Cancel{Task: t.GetId(), Attempt: t.GetAttempt()}}})
}

// cancelFlights stops whatever still travels. Micro-batches of training travel again in the next epoch with the same
// number; a stage that summed one already only passes it on.
func (o *Orchestrator) cancelFlights() {
	var again []uint64
	for _, f := range slices.Clone(o.Flights) {
		if f.Lease != nil {
			o.cancel(o.Miners[f.Lease.Miner], o.flightTask(f))
		}
		if !f.HeldOut {
			again = append(again, f.Batch)
		}
		o.land(f)
	}
	o.Again = append(again, o.Again...)
	slices.Sort(o.Again)
}

// demote halves a miner's weight in the draw.
func (m *miner) demote() { m.Factor = max(lowestFactor, m.Factor/2) }
