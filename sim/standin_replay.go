package sim

import (
	"bytes"
	"fmt"

	"github.com/iota-train/iota/protocol/message"
)

// replay does the log of another stand-in again, as a real replay would: from the orders alone.
func (w *standIn) replay(t *message.Task, inputs [][]byte, r *message.Receipt) error {
	log := t.GetLog()
	if len(inputs) < 3 || len(log) == 0 {
		return fmt.Errorf("a replay without a log")
	}
	again := newStandIn(w.manifest, w.key, log[0].GetSession())
	find := func(hash []byte) []byte {
		for _, b := range inputs {
			if bytes.Equal(message.HashBytes(b), hash) {
				return b
			}
		}
		return nil
	}
	for i, want := range log {
		got, err := again.redo(i, want, inputs[1], find)
		if err != nil {
			r.Note = err.Error()
			return nil
		}
		r.Replayed = append(r.Replayed, got.Essence(i))
	}
	return nil
}

// redo does what receipt i of a log says that was ordered.
func (w *standIn) redo(i int, want *message.Receipt, checkpoint []byte, find func([]byte) []byte) (*message.Receipt, error) {
	id := want.GetTask()
	none := &message.Receipt{Task: id, Fault: message.Fault_FAILED}
	switch {
	case want.Undone(), id.GetKind() == message.TaskKind_STATE, id.GetKind() == message.TaskKind_REPLAY:
		return none, nil
	case i == 0 && id.GetKind() == message.TaskKind_INSTALL:
		w.checkpoint, w.stage, w.loaded = checkpoint, uint64(id.GetStage()), true
		w.begin(id.GetEpoch() + 1)
		return &message.Receipt{Task: id, Outputs: []*message.BlobRef{message.NewBlob(checkpoint).Ref()}}, nil
	}
	var results []*message.Result
	for _, s := range want.GetSummed() {
		kind := message.TaskKind_BACKWARD
		if int(w.stage) == w.stages-1 {
			kind = message.TaskKind_LOSS
		}
		more, err := w.Acknowledge(&message.Ack{Number: w.acks + 1, Attempt: s.GetAttempt(), Task: &message.TaskID{
			Kind: kind, Epoch: w.epoch, Batch: s.GetBatch(), Stage: uint32(w.stage)}})
		if err != nil {
			return nil, err
		}
		results = append(results, more...)
	}
	if id.GetKind() == message.TaskKind_STEP {
		if len(results) != 1 {
			return nil, fmt.Errorf("%d steps come of it", len(results))
		}
		return results[0].Open()
	}
	return w.doAgain(want, find)
}

// doAgain does a task. Slots do not matter to what a stand-in computes.
func (w *standIn) doAgain(want *message.Receipt, find func([]byte) []byte) (*message.Receipt, error) {
	t := &message.Task{Id: want.GetTask(), Attempt: want.GetAttempt(), Rerun: want.GetRerun(), Passing: want.GetPassing(),
		RateBits: want.GetRateBits(), Plan: want.GetPlan(), Weights: want.GetWeights()}
	var inputs [][]byte
	for _, hash := range want.BlobHashes() {
		b := find(hash)
		inputs = append(inputs, b)
		t.Inputs = append(t.Inputs, &message.BlobRef{Hash: hash, Size: uint64(len(b))})
	}
	clear(w.slots)
	w.slots[want.GetTask().GetBatch()] = want.GetAttempt()
	result, _, err := w.Do(t, inputs)
	if err != nil {
		return nil, err
	}
	got, err := result.Open()
	if err == nil && want.GetTask().GetKind() == message.TaskKind_REDUCE {
		got.Elements = want.GetElements()
	}
	return got, err
}
