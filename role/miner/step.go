package miner

import (
	"errors"
	"fmt"
	"math"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/optim"
	"github.com/iota-train/iota/protocol/message"
)

// Acknowledge adds a gradient to the sum. With the K-th it takes an inner step and returns the receipt. Numbers count
// from 1 in each epoch: one that was seen, or that is of an epoch gone by, is ignored; one that skips others, or that
// names no waiting gradient, is an error and changes nothing.
func (m *Miner) Acknowledge(a *message.Ack) ([]*message.Result, error) {
	key := a.GetTask().Key()
	if m.stage == nil || key.Epoch < m.epoch || key.Epoch == m.epoch && a.GetNumber() <= m.acks && a.GetNumber() > 0 {
		return nil, nil
	}
	switch {
	case key.Epoch != m.epoch || key.Stage != uint32(m.stage.Index()):
		return nil, fmt.Errorf("acknowledge %s: this miner holds stage %d in epoch %d", key, m.stage.Index(), m.epoch)
	case a.GetNumber() != m.acks+1:
		return nil, fmt.Errorf("acknowledge %s: number %d after %d", key, a.GetNumber(), m.acks)
	case m.closed:
		return nil, fmt.Errorf("acknowledge %s: the epoch is closed", key)
	}
	i := m.waits(taskName{key, a.GetAttempt()})
	if i < 0 {
		return nil, fmt.Errorf("acknowledge %s, attempt %d: its gradient is not held", key, a.GetAttempt())
	}
	g := m.waiting[i]
	m.engine.Add(m.sum, g.g)
	m.summed = append(m.summed, &message.Summed{Batch: key.Batch, Attempt: a.GetAttempt(), Step: g.step})
	m.freeGradient(i)
	m.acks++
	if len(m.summed) < m.rules.perStep {
		return nil, nil
	}
	return []*message.Result{m.innerStep()}, nil
}

// innerStep steps with the whole sum and reports it as a task of its own.
func (m *Miner) innerStep() *message.Result {
	r := &message.Receipt{Step: m.current.step}
	err := m.stepSum(r)
	r.Task = &message.TaskID{Kind: message.TaskKind_STEP, Epoch: m.epoch, Batch: m.step, Stage: uint32(m.stage.Index())}
	if err != nil {
		(&work{receipt: r}).blame(err)
	}
	if m.step%m.rules.commitEvery == 0 {
		m.commit(r)
		m.keepMid()
	}
	return m.log.sign(r)
}

var errOverflow = errors.New("not finite after the step")

// stepSum takes an inner step with the mean of the gradients summed so far, whatever their number: clipped by the norm
// of the stage, then AdamW with the rate of the epoch. If a number is not finite after it, the miner goes back to the
// start of the epoch: that is then the outcome of the step.
func (m *Miner) stepSum(r *message.Receipt) error {
	r.Summed = m.summed
	m.step++
	err := m.takeStep(r)
	m.discardSum()
	if err != nil {
		m.back()
		return &faulty{message.Fault_NON_FINITE_OWN, 0, err.Error()}
	}
	return nil
}

func (m *Miner) takeStep(r *message.Receipt) error {
	params := m.stage.Params()
	m.engine.Scale(m.sum, 1/float32(len(m.summed)))
	norm := math.Sqrt(optim.NormSquared(params, m.sum))
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return errors.New("the norm of the mean gradient is not finite")
	}
	r.GradientNorm = norm
	scale := float32(1)
	if m.rules.clip > 0 {
		scale = optim.Clip(norm, optim.StageLimit(m.rules.clip, m.size, m.total))
	}
	w := m.writable()
	m.private.t++
	if m.rules.optimizer == sgd {
		m.engine.Scale(m.sum, scale)
		kernel.Axpy(w, m.sum, -m.rate)
	} else {
		a := optim.NewAdamW()
		a.Decay = m.rules.decay
		a.StepScaled(m.engine, params, w, m.sum, m.private.m, m.private.v, scale, m.rate, int(m.private.t))
	}
	for _, x := range [][]float32{w, m.private.m, m.private.v} {
		if !m.engine.AllFinite(x) {
			return errOverflow
		}
	}
	return nil
}
