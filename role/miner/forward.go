package miner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
)

// forward computes a micro-batch with the current weights and keeps what its backward needs in a slot.
func (m *Miner) forward(w *work) error {
	if err := m.training(w); err != nil {
		return err
	}
	if m.last() {
		return errors.New("the last stage computes the loss instead")
	}
	in, err := m.enter(w, 0)
	if err != nil {
		return err
	}
	s, err := m.newSlot(w)
	if err != nil {
		return err
	}
	v := m.current
	w.receipt.Step, s.step = v.step, v.step
	if m.rules.recompute {
		m.stage.Forward(v.w, m.buffers.tokens, in, m.buffers.out, m.buffers.tape)
		m.buffers.taped, m.buffers.at = s, v.step
		if in != nil {
			s.in = m.buffers.inputs.take()
			copy(s.in, in)
		}
	} else {
		s.weights, s.tape = hold(v), m.buffers.takeTape(m.stage)
		m.stage.Forward(v.w, m.buffers.tokens, in, m.buffers.out, s.tape)
	}
	m.slots = append(m.slots, s)
	if err := m.send(w, m.buffers.out); err != nil {
		m.freeSlot(len(m.slots) - 1)
		return m.own(v, "the activation")
	}
	return nil
}

// newSlot returns an empty slot for a micro-batch. A later attempt takes the place of an earlier one.
func (m *Miner) newSlot(w *work) (*slot, error) {
	old := m.slotOf(w.id.GetBatch())
	if old >= 0 && m.slots[old].attempt >= w.attempt {
		return nil, fmt.Errorf("attempt %d holds the slot", m.slots[old].attempt)
	}
	if old >= 0 {
		m.freeSlot(old)
	}
	if len(m.slots) >= m.rules.slots {
		m.freeSlot(0) // nobody is given more at once: the oldest was given up, and the news were lost on the way
	}
	return &slot{batch: w.id.GetBatch(), attempt: w.attempt}, nil
}

// slotOf returns the index of a micro-batch's slot, or -1.
func (m *Miner) slotOf(batch uint64) int {
	return slices.IndexFunc(m.slots, func(s *slot) bool { return s.batch == batch })
}

// evaluate computes a held-out micro-batch with the weights of the epoch's start.
func (m *Miner) evaluate(w *work) error {
	if err := m.here(w); err != nil {
		return err
	}
	if w.id.GetBatch() >= data.HeldOutBatches {
		return fmt.Errorf("there are %d held-out micro-batches", data.HeldOutBatches)
	}
	in, err := m.enter(w, 0)
	if err != nil {
		return err
	}
	m.buffers.taped = nil
	w.receipt.Step = m.start.step
	if m.last() {
		return m.stateLoss(w, m.start, m.stage.Loss(m.start.w, m.buffers.tokens, in, m.buffers.tape))
	}
	m.stage.Forward(m.start.w, m.buffers.tokens, in, m.buffers.out, m.buffers.tape)
	if err := m.send(w, m.buffers.out); err != nil {
		return m.own(m.start, "the activation")
	}
	return nil
}

// enter reads what a forward pass reads: the micro-batch's tokens, whose hash comes first among the receipt's inputs,
// and, except in the first stage, the wire, which is input at and the last one. It returns the wire or nil.
func (m *Miner) enter(w *work, at int) ([]float32, error) {
	n := at + 1
	if m.first() {
		n = at
	}
	if err := w.want(n); err != nil {
		return nil, err
	}
	var in []float32
	if !m.first() {
		in = m.buffers.in
		if err := m.receive(w, at, in, "the activation"); err != nil {
			return nil, err
		}
	}
	c, tokens := m.config, m.buffers.tokens
	if w.kind == message.TaskKind_EVALUATE {
		m.text.HeldOut(w.id.GetBatch(), c.Batch, c.SeqLen, tokens)
	} else {
		m.text.MicroBatch(m.manifest.GetData().GetSeed(), w.id.GetBatch(), c.Batch, c.SeqLen, tokens)
	}
	w.receipt.Inputs = slices.Insert(w.receipt.Inputs, 0, m.hashTokens())
	return in, nil
}

// hashTokens returns the hash of the tokens as little-endian 32-bit numbers.
func (m *Miner) hashTokens() []byte {
	b := m.buffers.bytes[:0]
	for _, token := range m.buffers.tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(token))
	}
	m.buffers.bytes = b
	return message.HashBytes(b)
}

// receive decodes input i, a wire. That a number is not finite is a claim against its sender.
func (m *Miner) receive(w *work, i int, dst []float32, what string) error {
	if err := tensor.Decode(dst, w.inputs[i], tensor.DType(m.config.Wire)); err != nil {
		return fmt.Errorf("input %d: %w", i, err)
	}
	if !kernel.AllFinite(dst) {
		return &faulty{message.Fault_NON_FINITE_INPUT, i, what + " received is not finite"}
	}
	return nil
}

var errNotFinite = errors.New("not finite")

// send gives a wire as an output. It returns errNotFinite if its receiver would decode a number that is not finite:
// that of bf16 may be one although ours is not.
func (m *Miner) send(w *work, x []float32) error {
	dt := tensor.DType(m.config.Wire)
	if !kernel.AllFinite(x) {
		return errNotFinite
	}
	blob := tensor.Encode(nil, x, dt, 0)
	if dt != tensor.F32 {
		if err := tensor.Decode(m.buffers.check, blob, dt); err != nil || !kernel.AllFinite(m.buffers.check) {
			return errNotFinite
		}
	}
	w.give(blob)
	return nil
}
