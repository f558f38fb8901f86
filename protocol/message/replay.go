package message

import (
	"bytes"
	"fmt"
	"math"
)

// Ordered is what a replay is told of receipt i of a log: what was to be done, with which inputs, and in which order
// gradients entered the sum. What came of it is left out: outputs, losses, norms, weight versions and commitments. What
// a commitment covers stays, as the moments at which a miner dropped work are its own.
func (r *Receipt) Ordered() *Receipt {
	o := &Receipt{
		Task: r.GetTask(), Attempt: r.GetAttempt(), Inputs: r.GetInputs(), Session: r.GetSession(),
		Rerun: r.GetRerun(), Passing: r.GetPassing(), RateBits: r.GetRateBits(), Plan: r.GetPlan(), Weights: r.GetWeights(),
		Elements: r.GetElements(), Summed: unversioned(r.GetSummed()), Slots: unversioned(r.GetSlots()),
		Waiting: unversioned(r.GetWaiting()),
	}
	if f := r.GetFault(); r.Undone() || f == Fault_NON_FINITE_INPUT { // they say what was read, or that nothing was done
		o.Fault = f
	}
	return o
}

func unversioned(list []*Summed) []*Summed {
	var short []*Summed
	for _, s := range list {
		short = append(short, &Summed{Batch: s.GetBatch(), Attempt: s.GetAttempt()})
	}
	return short
}

// Essence is what the log decides of receipt i of a stretch of it, and what two who replay it must agree on. Nothing of
// work that was not done is decided, and of the install that a stretch begins with only the state that it led to.
func (r *Receipt) Essence(i int) *Receipt {
	kind := r.GetTask().GetKind()
	switch {
	case r.Undone(), kind == TaskKind_STATE, kind == TaskKind_REPLAY:
		return &Receipt{Task: r.GetTask()}
	case i == 0 && kind == TaskKind_INSTALL:
		return &Receipt{Task: r.GetTask(), Outputs: r.GetOutputs(), State: r.GetState()}
	}
	return &Receipt{
		Task: r.GetTask(), Attempt: r.GetAttempt(), Step: r.GetStep(), Inputs: r.GetInputs(), Outputs: r.GetOutputs(),
		LossBits: r.GetLossBits(), Summed: r.GetSummed(), State: r.GetState(), Fault: r.GetFault(), Sources: r.GetSources(),
		ResultNorm2: r.GetResultNorm2(), GradientNorm: r.GetGradientNorm(), UpdateNorm2: r.GetUpdateNorm2(),
		Slots: r.GetSlots(), Waiting: r.GetWaiting(), Elements: r.GetElements(),
	}
}

// Differs says in what the essence got differs from want, the one that the log has, "" if it does not.
func Differs(got, want *Receipt) string {
	switch {
	case bytes.Equal(Encode(got), Encode(want)):
		return ""
	case got.GetFault() != want.GetFault():
		return fmt.Sprintf("fault %s, the log says %s", got.GetFault(), want.GetFault())
	case !bytes.Equal(got.GetState(), want.GetState()):
		return "the state commitment differs"
	case len(got.GetOutputs()) != len(want.GetOutputs()):
		return fmt.Sprintf("%d outputs, the log says %d", len(got.GetOutputs()), len(want.GetOutputs()))
	}
	for i := range got.GetOutputs() {
		if !got.GetOutputs()[i].Same(want.GetOutputs()[i]) {
			return fmt.Sprintf("output %d differs", i)
		}
	}
	if got.GetLossBits() != want.GetLossBits() {
		return fmt.Sprintf("loss %v, the log says %v", math.Float64frombits(got.GetLossBits()), math.Float64frombits(want.GetLossBits()))
	}
	if len(got.GetSources()) > 0 {
		return "what it says of the sources differs"
	}
	return "inputs, weight versions or norms differ"
}

// Undone reports whether a receipt says that nothing was done. A replay passes it over.
func (r *Receipt) Undone() bool {
	return r.GetFault() == Fault_MISSING_INPUT || r.GetFault() == Fault_FAILED
}

// BlobHashes are the inputs of a receipt that are blobs: all but the tokens, which follow from the micro-batch.
func (r *Receipt) BlobHashes() [][]byte {
	inputs := r.GetInputs()
	if r.ReadsTokens() && len(inputs) > 0 {
		return inputs[1:]
	}
	return inputs
}

// ReadsTokens reports whether the first input of a receipt is the hash of tokens. Work that stopped at a number that was
// not finite on arrival did not come to read them.
func (r *Receipt) ReadsTokens() bool {
	if r.GetFault() == Fault_NON_FINITE_INPUT {
		return false
	}
	switch r.GetTask().GetKind() {
	case TaskKind_FORWARD, TaskKind_LOSS, TaskKind_EVALUATE:
		return true
	case TaskKind_BACKWARD:
		return r.GetRerun()
	}
	return false
}
