package miner

import (
	"errors"
	"fmt"
	"slices"
)

// start is the private state at the start of an epoch gone by.
type start struct {
	epoch   uint64
	private private
}

// keepStart keeps the private state of the running epoch's start for audits, because epoch next begins. States older
// than the challenge window are forgotten, one epoch late because the orchestrator's epoch ends after the miner's: their
// memory is used again.
func (m *Miner) keepStart(next uint64) {
	if m.rules.window == 0 || m.stage == nil || m.epoch == next {
		return
	}
	m.dropMids(next)
	var s start
	if len(m.starts) >= m.rules.kept() {
		s = m.starts[0]
		m.starts = slices.Delete(m.starts, 0, 1)
	}
	s.epoch = m.epoch
	s.private.set(m.saved)
	m.starts = append(m.starts, s)
}

// giveState stores the private state of the start of the task's epoch: with the checkpoint of that epoch it is the state
// that the log of the epoch begins with. With a step number it stores the whole state that this step committed to. A state
// that is no longer kept is a failure, which the receipt says.
func (m *Miner) giveState(w *work) error {
	if err := w.want(0); err != nil {
		return err
	}
	if m.stage == nil {
		return failed("no stage is held, and no state of epoch %d", w.id.GetEpoch())
	}
	if step := w.id.GetBatch(); step > 0 {
		for _, s := range slices.Backward(m.mids) { // a stage that was loaded again has steps of that number once more
			if s.epoch == w.id.GetEpoch() && s.step == step && s.stage == int(w.id.GetStage()) {
				w.give(s.blob)
				return nil
			}
		}
		return failed("the state of step %d of epoch %d is not kept", step, w.id.GetEpoch())
	}
	if w.id.GetEpoch() == m.epoch && w.id.GetStage() == uint32(m.stage.Index()) {
		w.give(m.saved.encode())
		return nil
	}
	for _, s := range m.starts {
		if s.epoch == w.id.GetEpoch() && s.private.stage == int(w.id.GetStage()) {
			w.give(s.private.encode())
			return nil
		}
	}
	return failed("the state of stage %d at the start of epoch %d is not kept", w.id.GetStage(), w.id.GetEpoch())
}

// replay does a stretch of somebody's log again, on a miner made for it, and says what comes of every receipt. The task's
// inputs are the private state and the checkpoint that the log begins with and the state that it resumes, empty where it
// needs none, then every blob that the log reads. It needs no stage, and this miner's own state plays no part in it.
func (m *Miner) replay(w *work) error {
	if len(w.inputs) < 3 || len(w.log) == 0 {
		return errors.New("a replay needs a log and the state that it begins with")
	}
	blobs := map[string][]byte{}
	for i, hash := range w.receipt.GetInputs() {
		blobs[string(hash)] = w.inputs[i]
	}
	log := Log{Receipts: w.log, Private: w.inputs[0], Resume: w.inputs[2], Checkpoint: w.receipt.GetInputs()[1], Blobs: func(hash []byte) ([]byte, error) {
		if b := blobs[string(hash)]; b != nil {
			return b, nil
		}
		return nil, fmt.Errorf("blob %x is not among the inputs", hash[:min(4, len(hash))])
	}}
	got, err := log.Again(m.manifest, m.text, m.engine)
	if err != nil {
		return failed("%v", err)
	}
	w.receipt.Replayed, w.receipt.Note = got.Receipts, got.Problem
	return nil
}
