package orchestrator

import (
	"github.com/iota-train/iota/protocol/message"
)

// MaxFaults is how many faults withdraw a miner. Its own values that are not finite, loads that it could not do and
// inputs that only it could not get make one row, unchecked claims another; refuted claims are a count that falls by one
// every MaxFaults epochs.
const MaxFaults = 8

// flightFault answers a miner that could not do its piece of a micro-batch.
func (o *Orchestrator) flightFault(m *miner, f *flight, r *message.Receipt, rerun bool) {
	switch r.GetFault() {
	case message.Fault_NON_FINITE_INPUT, message.Fault_MISSING_INPUT:
		o.claimed(m, f, r, rerun)
	case message.Fault_NON_FINITE_OWN:
		o.nonFinite(m)
		o.retry(f, m)
	default:
		o.alert("miner %d could not do %s: %s", m.Number+1, r.GetTask().Key(), r.GetNote())
		m.demote()
		o.retry(f, m)
	}
}

// nonFinite counts a miner's own non-finite value. It went back to its last finite state and goes on; one that keeps
// producing them is withdrawn.
func (o *Orchestrator) nonFinite(m *miner) {
	o.Counters.NonFinite++
	o.charge(m, "too many values that are not finite, one after the other: check the machine's memory, then join with a new key")
}

// charge adds a fault to a miner's row and withdraws it when the row is too long.
func (o *Orchestrator) charge(m *miner, why string) {
	if m.Faults++; m.Faults >= MaxFaults && m.Barred == "" {
		o.bar(m, why)
	}
}

// credit ends rows of faults: the miner whose tensor was fit to compute with is sound, and so is one whose work ends
// here. Who computed with another's tensor is not one that claims against all.
func (o *Orchestrator) credit(m *miner, f *flight) {
	if source := o.sourceOf(f); source >= 0 {
		maker := o.Miners[f.Makers[source]]
		maker.Faults, maker.Doubts, m.Doubts = 0, nil, nil
	}
	if len(o.Stages) == 1 {
		m.Faults = 0
	}
}

// sourceOf is the stage that made what a flight's present piece of work reads first, or -1.
func (o *Orchestrator) sourceOf(f *flight) int {
	if list := o.sources(f, false); len(list) > 0 {
		return list[0]
	}
	return -1
}

// retry lets somebody else do a flight's present piece.
func (o *Orchestrator) retry(f *flight, m *miner) {
	o.giveUp(f, f.Hop)
	f.Lease, f.Avoid = nil, m.Number+1
	o.Counters.Rerouted++
}

// makeAgain sends a flight back to the stage that made a tensor, where another miner makes it if one can. An activation
// that a rerun was to read again is older than the gradients: with it the whole way is gone through again.
func (o *Orchestrator) makeAgain(f *flight, source int) {
	if f.Back && source < f.Hop {
		o.travelAgain(f)
		return
	}
	if !f.Back {
		o.giveUp(f, source)
	}
	f.Hop, f.Claims, f.Avoid = source, nil, f.Makers[source]+1
	if source == len(o.Stages)-1 {
		f.Back = false // the last stage makes its gradient in one task with the loss
	}
	o.Counters.Rerouted++
}

// travelAgain starts a micro-batch anew because a tensor of it is of no use. Stages that summed it only pass it on.
func (o *Orchestrator) travelAgain(f *flight) {
	for s := range f.Path {
		o.giveUp(f, s)
	}
	f.Hop, f.Back, f.Lease, f.Avoid, f.Claims = 0, false, nil, 0, nil
	o.Counters.Rerouted++
}

// giveUp frees a flight's slot in a stage, on both sides: a backward that is called off drops the forward held for it,
// whatever attempt that was.
func (o *Orchestrator) giveUp(f *flight, stage int) {
	if n := f.Path[stage]; n >= 0 && !f.HeldOut {
		o.cancel(o.Miners[n], &message.Task{Id: &message.TaskID{
			Kind: message.TaskKind_BACKWARD, Epoch: o.Epoch, Batch: f.Batch, Stage: uint32(stage)}})
	}
	o.release(f, stage)
}
