package orchestrator

import (
	"bytes"
	"encoding/hex"
	"slices"

	"github.com/iota-train/iota/protocol/message"
)

// plant adds an altered copy of an audit: one piece of its work reads a tensor that was another micro-batch's. Nobody can
// answer it from receipts; the right answer is what two who compute it agree on. Which tensor a task reads differs from
// task to task anyway, all of it can be computed, and nobody gets the copy who gets the audit itself: so a validator that
// compares all that it has seen can tell only if it was also given the work that the tensor came from or went to.
func (o *Orchestrator) plant(a audit) {
	i, from, to := o.exchange(&a)
	if i < 0 || !o.severalValidators() {
		return
	}
	a.Planted, a.First, a.Acked, a.Parties = true, false, 0, nil
	a.Order, a.Blobs = slices.Clone(a.Order), slices.Clone(a.Blobs)
	r := opened(a.Order[i])
	for k, hash := range r.Inputs {
		if bytes.Equal(hash, from.Hash) {
			r.Inputs[k] = to.Hash
		}
	}
	a.Order[i] = message.Encode(r)
	for k, b := range a.Blobs {
		if b.same(from) {
			a.Blobs[k] = to
		}
	}
	a.Twin = o.AuditCount // the audit was opened just now
	o.AuditTotals.Planted++
	o.open(&a)
}

// severalValidators reports whether there is one for an audit and another one for its altered copy.
func (o *Orchestrator) severalValidators() bool {
	n := 0
	for _, v := range o.Validators {
		if v.Connected && v.Barred == "" {
			n++
		}
	}
	return n > 1
}

// exchange draws a piece of an audit's own work that reads a tensor which nothing else in it reads, and for that tensor
// another one that the same kind of work read in this epoch, outside the audit. It returns -1 where there is none, as in a
// run of one stage, in which no tensors travel.
func (o *Orchestrator) exchange(a *audit) (at int, from, to ref) {
	for _, i := range o.dice.Perm(len(a.Order) - a.Segment.Own) {
		at := a.Segment.Own + i
		r := opened(a.Order[at])
		from, ok := o.tensorOf(r)
		if !ok || a.uses(from) != 1 {
			continue
		}
		var list []ref
		for _, m := range o.Miners {
			for _, raw := range m.Receipts {
				other := opened(raw)
				if to, ok := o.tensorOf(other); ok && other.GetTask().GetKind() == r.GetTask().GetKind() &&
					other.GetTask().GetStage() == r.GetTask().GetStage() && to.Size == from.Size && a.uses(to) == 0 {
					list = append(list, to)
				}
			}
		}
		if len(list) > 0 {
			return at, from, list[o.dice.IntN(len(list))]
		}
	}
	return -1, ref{}, ref{}
}

// tensorOf returns the one tensor that a LOSS or a BACKWARD of this epoch read, false if it is another receipt or read more.
func (o *Orchestrator) tensorOf(r *message.Receipt) (ref, bool) {
	kind, hashes := r.GetTask().GetKind(), r.BlobHashes()
	if kind != message.TaskKind_LOSS && kind != message.TaskKind_BACKWARD || r.GetFault() != message.Fault_FAULT_NONE ||
		r.GetTask().GetEpoch() != o.Epoch || len(hashes) != 1 {
		return ref{}, false
	}
	b, stored := o.Blobs[hex.EncodeToString(hashes[0])]
	return ref{hashes[0], b.Size}, stored
}

// uses counts how often the work of an audit reads a tensor.
func (a *audit) uses(r ref) (n int) {
	for _, raw := range a.Order {
		for _, hash := range opened(raw).GetInputs() {
			if bytes.Equal(hash, r.Hash) {
				n++
			}
		}
	}
	return n
}
