package orchestrator

import (
	"github.com/iota-train/iota/protocol/message"
)

// maxFaults is how many non-finite results in a row a miner may give before it is withdrawn.
const maxFaults = 8

// flightFault answers a miner that could not do its piece of a micro-batch.
func (o *Orchestrator) flightFault(m *miner, f *flight, r *message.Receipt, rerun bool) {
	switch r.GetFault() {
	case message.Fault_NON_FINITE_INPUT:
		if rerun {
			o.release(f, f.Hop) // it holds no forward that the backward could use when it comes again
		}
		o.blameSource(m, f)
	case message.Fault_MISSING_INPUT:
		o.travelAgain(f)
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
	if m.Faults++; m.Faults >= maxFaults {
		o.bar(m, "too many values that are not finite, one after the other: check the machine's memory, then join with a new key")
	}
}

// credit ends a row of faults: the miner whose tensor was fit to compute with is sound, and so is one whose work ends
// here.
func (o *Orchestrator) credit(m *miner, f *flight) {
	if source := o.sourceOf(f); source >= 0 && f.Makers[source] >= 0 {
		o.Miners[f.Makers[source]].Faults = 0
	}
	if len(o.Stages) == 1 {
		m.Faults = 0
	}
}

// sourceOf is the stage that made what a flight's present piece of work reads, or -1.
func (o *Orchestrator) sourceOf(f *flight) int {
	if f.Back && f.Hop < len(o.Stages)-1 {
		return f.Hop + 1
	}
	return f.Hop - 1
}

// retry lets somebody else do a flight's present piece.
func (o *Orchestrator) retry(f *flight, m *miner) {
	o.giveUp(f, f.Hop)
	f.Lease, f.Avoid = nil, m.Number+1
	o.Counters.Rerouted++
}

// blameSource holds a non-finite tensor against the miner that made it, not against the one that was fed it, and has it
// made again.
func (o *Orchestrator) blameSource(m *miner, f *flight) {
	source := o.sourceOf(f)
	if source < 0 {
		o.retry(f, m)
		return
	}
	if maker := f.Makers[source]; maker >= 0 {
		f.Avoid = maker + 1
		o.alert("miner %d sent a tensor that is not finite", maker+1)
		o.nonFinite(o.Miners[maker])
	}
	o.Counters.Rerouted++
	if !f.Back {
		o.release(f, f.Hop)
		o.giveUp(f, source)
	}
	f.Hop = source
	if source == len(o.Stages)-1 {
		f.Back = false // the last stage makes its gradient in one task with the loss
	}
}

// travelAgain starts a micro-batch anew because a tensor of it is lost. Stages that summed it only pass it on.
func (o *Orchestrator) travelAgain(f *flight) {
	for s := range f.Path {
		o.giveUp(f, s)
	}
	f.Hop, f.Back, f.Lease, f.Avoid = 0, false, nil, 0
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
