package miner

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/iota-train/iota/protocol/message"
)

// redo does what receipt i claims and returns the receipt that comes of it, nil for work that was not done.
func (r *replay) redo(i int, want *message.Receipt) (*message.Receipt, error) {
	if want.GetTask() == nil {
		return nil, &mismatch{fmt.Sprintf("receipt %d names no task", i)}
	}
	if want.Undone() {
		return nil, nil
	}
	kind := want.GetTask().GetKind()
	if i > 0 && i <= r.at {
		return r.takeUp(i, want)
	}
	switch kind {
	case message.TaskKind_STATE, message.TaskKind_REPLAY: // which say nothing of the miner's own work
		return nil, nil
	case message.TaskKind_REDUCE, message.TaskKind_OUTER: // pure functions of blobs: they need no state
		return r.doAgain(want)
	}
	if kind == message.TaskKind_INSTALL && i == 0 {
		return r.beginAt(want)
	}
	if kind == message.TaskKind_LOAD || r.miner.stage != nil {
		if err := r.acknowledge(want); err != nil || kind == message.TaskKind_STEP {
			return r.stepped(want, err)
		}
		return r.doAgain(want)
	}
	return nil, mismatched(want, "the log begins with neither LOAD nor INSTALL")
}

// beginAt takes up the state that an install led to, as a LOAD of its checkpoint, and says which state that is.
func (r *replay) beginAt(want *message.Receipt) (*message.Receipt, error) {
	blob, err := r.fetch(r.start)
	if err != nil {
		return nil, err
	}
	if blob == nil {
		return nil, mismatched(want, "it names no checkpoint")
	}
	w := &work{
		kind: message.TaskKind_LOAD, inputs: [][]byte{blob}, rate: want.GetRateBits(), receipt: &message.Receipt{},
		id: &message.TaskID{Kind: message.TaskKind_LOAD, Epoch: want.GetTask().GetEpoch() + 1, Stage: want.GetTask().GetStage()},
	}
	if err := r.miner.perform(w); err != nil {
		return nil, mismatched(want, "%v", err)
	}
	return &message.Receipt{Task: want.GetTask(), Outputs: w.receipt.GetOutputs(), State: w.receipt.GetState()}, nil
}

// takeUp resumes a state that was committed to: receipts 1 to at are the forwards of the slots that it holds, done again
// on the weights that it has for them, and then the STEP, of which the commitment is computed.
func (r *replay) takeUp(i int, want *message.Receipt) (*message.Receipt, error) {
	m := r.miner
	if m.stage == nil {
		return nil, mismatched(want, "the log begins with neither LOAD nor INSTALL")
	}
	if i == 1 {
		held, err := m.resumeMid(r.resume)
		if err != nil {
			return nil, mismatched(want, "%v", err)
		}
		r.held = held
	}
	if i < r.at {
		return &message.Receipt{Task: want.GetTask()}, r.hold(want)
	}
	if m.step != want.GetTask().GetBatch() || len(m.slots) != len(r.held) {
		return nil, mismatched(want, "the state is one of step %d with %d slots", m.step, len(r.held))
	}
	got := &message.Receipt{Task: want.GetTask()}
	m.commit(got)
	return got, nil
}

// hold does the forward of a slot that the resumed state holds.
func (r *replay) hold(want *message.Receipt) error {
	m := r.miner
	at := slices.IndexFunc(r.held, func(s heldSlot) bool { return s.batch == want.GetTask().GetBatch() && s.attempt == want.GetAttempt() })
	if at < 0 || want.GetTask().GetKind() != message.TaskKind_FORWARD {
		return mismatched(want, "the state holds no slot of it")
	}
	current, weights, n := m.current, m.current, len(m.slots)
	if v := r.held[at].weights; v != nil {
		weights = v
	}
	m.current = weights
	got, err := r.doAgain(want)
	if err != nil {
		return err
	}
	if got.GetFault() != message.Fault_FAULT_NONE || m.current != weights || len(m.slots) != n+1 {
		return mismatched(want, "the slot's forward cannot be done")
	}
	m.current = current
	m.slots[n].step = r.held[at].step
	return nil
}

// acknowledge lets the gradients that a receipt sums into the sum, all but the last of a STEP.
func (r *replay) acknowledge(want *message.Receipt) error {
	m := r.miner
	summed := want.GetSummed()
	if want.GetTask().GetKind() == message.TaskKind_STEP {
		if len(summed) != m.rules.perStep {
			return mismatched(want, "%d gradients summed, not %d", len(summed), m.rules.perStep)
		}
		summed = summed[:len(summed)-1]
	}
	for _, s := range summed {
		results, err := m.Acknowledge(r.ack(s))
		if err == nil && len(results) > 0 {
			err = errors.New("it sums more gradients than a step takes")
		}
		if err != nil {
			return mismatched(want, "%v", err)
		}
	}
	return nil
}

func (r *replay) ack(s *message.Summed) *message.Ack {
	m := r.miner
	id := &message.TaskID{Kind: m.gradientKind(), Epoch: m.epoch, Batch: s.GetBatch(), Stage: uint32(m.stage.Index())}
	return &message.Ack{Task: id, Attempt: s.GetAttempt(), Number: m.acks + 1}
}

// stepped takes the inner step of a STEP receipt, unless err says that it cannot be taken.
func (r *replay) stepped(want *message.Receipt, err error) (*message.Receipt, error) {
	if err != nil {
		return nil, err
	}
	results, err := r.miner.Acknowledge(r.ack(want.GetSummed()[r.miner.rules.perStep-1]))
	if err != nil {
		return nil, mismatched(want, "%v", err)
	}
	if len(results) != 1 {
		return nil, mismatched(want, "no step comes of it")
	}
	return results[0].Open()
}

// doAgain does a task as its receipt says that it was ordered.
func (r *replay) doAgain(want *message.Receipt) (*message.Receipt, error) {
	if want.ReadsTokens() && len(want.GetInputs()) == 0 {
		return nil, mismatched(want, "it names no tokens")
	}
	hashes := want.BlobHashes()
	w := &work{
		kind: want.GetTask().GetKind(), id: want.GetTask().Key().ID(), attempt: want.GetAttempt(), rerun: want.GetRerun(),
		passing: want.GetPassing(), rate: want.GetRateBits(), plan: want.GetPlan(), weights: want.GetWeights(), elements: -1,
	}
	w.receipt = &message.Receipt{Task: w.id, Attempt: w.attempt, Inputs: append([][]byte(nil), hashes...)}
	var size uint64
	for _, hash := range hashes {
		blob, err := r.fetch(hash)
		if err != nil {
			return nil, err
		}
		size = max(size, uint64(len(blob)))
		w.inputs = append(w.inputs, blob)
	}
	if w.kind == message.TaskKind_REDUCE {
		if want.GetElements() > min(size, math.MaxInt32) {
			return nil, mismatched(want, "a shard of %d elements from sources of %d bytes", want.GetElements(), size)
		}
		w.elements = int(want.GetElements())
	}
	if err := r.miner.perform(w); err != nil && !w.blame(err) {
		return nil, mismatched(want, "%v", err)
	}
	return w.receipt, nil
}

// fetch finds a blob and checks its hash; an empty hash names no bytes.
func (r *replay) fetch(hash []byte) ([]byte, error) {
	if len(hash) == 0 {
		return nil, nil
	}
	blob, err := r.blobs(hash)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(message.HashBytes(blob), hash) {
		return nil, fmt.Errorf("blob %x has another hash", hash[:min(4, len(hash))])
	}
	return blob, nil
}
