package miner

import (
	"fmt"
	"math"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
)

// load takes over a stage: from a checkpoint, or from the initial weights where the stage has none yet. Moments, residual and step count
// go on if they are of this stage, as they were at the last install; else they start at zero.
func (m *Miner) load(w *work) error {
	index := int(w.id.GetStage())
	if index >= m.config.Stages() {
		return fmt.Errorf("the model has %d stages", m.config.Stages())
	}
	rate, err := readRate(w.rate)
	if err != nil {
		return err
	}
	w.receipt.RateBits = w.rate
	c, err := m.origin(w, index)
	if err != nil {
		return err
	}
	m.keepStart(w.id.GetEpoch())
	if err := m.takeStage(index); err != nil {
		return err
	}
	if m.saved.stage != index || m.saved.t == 0 {
		m.saved = m.newPrivate(index)
	}
	m.outer, m.mark = c.outer, c.mark
	m.begin(w.id.GetEpoch(), rate, &version{w: c.weights, holders: 1})
	m.private.set(m.saved)
	w.receipt.Outputs = []*message.BlobRef{m.checkpoint().ref()}
	m.commit(w.receipt)
	return nil
}

// origin returns the checkpoint that a task starts from: its first input, or the initial weights if it has none. It may
// be of an earlier epoch: a stage that nobody served during a merge keeps its checkpoint.
func (m *Miner) origin(w *work, stage int) (*checkpoint, error) {
	switch {
	case len(w.inputs) > 1:
		return nil, fmt.Errorf("%d inputs, want a checkpoint or none", len(w.inputs))
	case len(w.inputs) == 0:
		c := m.newCheckpoint(stage)
		m.config.Init(stage, c.weights, m.manifest.GetData().GetSeed())
		return c, nil
	}
	c, err := m.readCheckpoint(stage, w.inputs[0])
	if err != nil {
		return nil, err
	}
	if c.mark.epoch > w.id.GetEpoch() {
		return nil, fmt.Errorf("the checkpoint is of epoch %d", c.mark.epoch)
	}
	if !kernel.AllFinite(c.weights) || !kernel.AllFinite(c.outer) {
		return nil, &faulty{message.Fault_NON_FINITE_INPUT, 0, "the checkpoint is not finite"}
	}
	return c, nil
}

// takeStage prepares to compute a stage. What the miner held of another is gone.
func (m *Miner) takeStage(index int) error {
	if m.stage != nil {
		m.empty()
		m.release(m.start)
		m.release(m.current)
		m.start, m.current = nil, nil
		m.buffers.vectors.free = nil // the new weights come with memory of their own
	}
	if m.stage != nil && m.stage.Index() == index {
		return nil
	}
	stage, err := model.NewStage(m.config, index, m.engine)
	if err != nil {
		return err
	}
	m.stage, m.size = stage, m.config.StageSize(index)
	m.buffers = newBuffers(stage, m.size)
	m.sum = tensor.New(m.size)
	return nil
}

// begin starts an epoch at the given weights, which the miner now holds.
func (m *Miner) begin(epoch uint64, rate float32, start *version) {
	m.epoch, m.rate, m.closed = epoch, rate, false
	m.start, m.current = start, hold(start)
	m.step, m.floor, m.acks = 0, 0, 0
	m.discardSum()
	m.log.forget()
}

// discardSum forgets the gradients of an inner step that was not finished. A sum of none is zero already.
func (m *Miner) discardSum() {
	if len(m.summed) > 0 {
		clear(m.sum)
	}
	m.summed = nil
}

// readRate decodes a learning rate.
func readRate(bits uint32) (float32, error) {
	rate := math.Float32frombits(bits)
	if !(rate >= 0 && rate <= math.MaxFloat32) {
		return 0, fmt.Errorf("learning rate %v", rate)
	}
	return rate, nil
}

// upload gives the checkpoint of the epoch's start. The order may still count the epoch that the install ended.
func (m *Miner) upload(w *work) error {
	if m.stage == nil || w.id.GetEpoch()+1 != m.epoch || w.id.GetStage() != uint32(m.stage.Index()) {
		if err := m.here(w); err != nil {
			return err
		}
	}
	if err := w.want(0); err != nil {
		return err
	}
	blob, err := m.checkpoint().encode()
	if err != nil {
		return err
	}
	w.give(blob)
	return nil
}
