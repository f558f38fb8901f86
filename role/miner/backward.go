package miner

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/message"
)

// loss computes the last stage of a micro-batch forward and back. Its gradient waits for the acknowledgement.
func (m *Miner) loss(w *work) error {
	if err := m.training(w); err != nil {
		return err
	}
	if !m.last() {
		return fmt.Errorf("stage %d is not the last", m.stage.Index())
	}
	w.receipt.Passing = w.passing
	in, err := m.enter(w, 0)
	if err != nil {
		return err
	}
	if err := m.room(w); err != nil {
		return err
	}
	v := m.current
	w.receipt.Step = v.step
	if err := m.stateLoss(w, v, m.stage.Loss(v.w, m.buffers.tokens, in, m.buffers.tape)); err != nil {
		return err
	}
	return m.goBack(w, v, m.buffers.tape, nil)
}

// stateLoss writes a loss into the receipt.
func (m *Miner) stateLoss(w *work, v *version, loss float64) error {
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return m.own(v, "the loss")
	}
	w.receipt.LossBits = math.Float64bits(loss)
	return nil
}

// backward takes the gradient of a micro-batch back through the stage: from the tape of its forward, or, when it is
// rerun here for another miner or the policy is recompute, from its input. The slot is free afterwards; a gradient that
// is not finite on arrival leaves it, because a better one may come.
func (m *Miner) backward(w *work) error {
	if err := m.training(w); err != nil {
		return err
	}
	if m.last() {
		return errors.New("the last stage goes back with its loss")
	}
	w.receipt.Passing, w.receipt.Rerun = w.passing, w.rerun
	if len(w.inputs) == 0 {
		return w.want(1)
	}
	if err := m.receive(w, 0, m.buffers.grad, "the gradient"); err != nil {
		return err
	}
	if err := m.room(w); err != nil {
		return err
	}
	if w.rerun {
		return m.rerun(w)
	}
	if err := w.want(1); err != nil {
		return err
	}
	i := m.slotOf(w.id.GetBatch())
	if i < 0 {
		return failed("no forward of micro-batch %d is held", w.id.GetBatch())
	}
	s := m.slots[i]
	v, tape := s.weights, s.tape
	if m.rules.recompute {
		v, tape = m.current, m.buffers.tape
		m.recompute(s)
	}
	w.receipt.Step = v.step
	err := m.goBack(w, v, tape, m.buffers.grad)
	m.freeSlot(i)
	return err
}

// rerun is a backward whose forward another miner did.
func (m *Miner) rerun(w *work) error {
	in, err := m.enter(w, 1)
	if err != nil {
		return err
	}
	if i := m.slotOf(w.id.GetBatch()); i >= 0 {
		m.freeSlot(i)
	}
	v := m.current
	w.receipt.Step = v.step
	m.buffers.taped = nil
	m.stage.Forward(v.w, m.buffers.tokens, in, m.buffers.out, m.buffers.tape)
	return m.goBack(w, v, m.buffers.tape, m.buffers.grad)
}

// recompute fills the common tape with a slot's forward on the current weights, unless it is there already.
func (m *Miner) recompute(s *slot) {
	y := &m.buffers
	if y.taped == s && y.at == m.current.step {
		return
	}
	m.text.MicroBatch(m.manifest.GetData().GetSeed(), s.batch, m.config.Batch, m.config.SeqLen, y.tokens)
	m.stage.Forward(m.current.w, y.tokens, s.in, y.out, y.tape)
	y.taped, y.at = s, m.current.step
}

// room checks that the queue has room for one more gradient.
func (m *Miner) room(w *work) error {
	if m.waits(taskName{w.id.Key(), w.attempt}) >= 0 {
		return errors.New("its gradient waits for its acknowledgement already")
	}
	if !w.passing && len(m.waiting) >= m.rules.queue() {
		return failed("%d gradients wait for their acknowledgement", len(m.waiting))
	}
	return nil
}

// goBack runs a tape back with the weights that filled it, gives the gradient for the stage before, and queues that of
// the weights. dout is nil in the last stage.
func (m *Miner) goBack(w *work, v *version, tape *model.Tape, dout []float32) error {
	g, din := m.buffers.vectors.take(), m.buffers.to
	if m.first() {
		din = nil
	}
	m.stage.Backward(v.w, tape, dout, g, din)
	finite := m.engine.AllFinite(g)
	if finite && din != nil {
		finite = m.send(w, din) == nil
	}
	switch {
	case !finite:
		m.buffers.vectors.put(g)
		return m.own(v, "the gradient")
	case w.passing:
		m.buffers.vectors.put(g)
	default:
		m.waiting = append(m.waiting, &gradient{taskName{w.id.Key(), w.attempt}, v.step, g})
	}
	return nil
}

// waits returns the index of a waiting gradient, or -1.
func (m *Miner) waits(name taskName) int {
	return slices.IndexFunc(m.waiting, func(g *gradient) bool { return g.name == name })
}

// gradientKind is the task whose gradient a stage waits to sum.
func (m *Miner) gradientKind() message.TaskKind {
	if m.last() {
		return message.TaskKind_LOSS
	}
	return message.TaskKind_BACKWARD
}
