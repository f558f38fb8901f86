package miner

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
)

// version is one state of the weights. Nothing writes to one that several hold.
type version struct {
	w       []float32
	step    uint64
	holders int
}

// slot is a micro-batch between its forward and its backward. Under policy stash it holds the tape and the weights of
// the forward, under recompute the stage's input.
type slot struct {
	batch   uint64
	attempt uint32
	step    uint64 // weight version of the forward
	weights *version
	tape    *model.Tape
	in      []float32
}

// gradient is that of one micro-batch, waiting for its acknowledgement.
type gradient struct {
	name taskName
	step uint64 // weight version of the backward
	g    []float32
}

// private is the state that stays with a miner across merges. It belongs to one stage. Moments are nil with SGD, the
// residual is nil where shares lose nothing.
type private struct {
	stage    int
	m, v     []float32
	residual []float32 // what shares did not carry yet
	t        uint64    // inner steps of the miner's life
}

// newPrivate returns the state of a miner that never trained the stage.
func (m *Miner) newPrivate(stage int) private {
	p, size := private{stage: stage}, m.config.StageSize(stage)
	if m.rules.optimizer == adamW {
		p.m, p.v = tensor.New(size), tensor.New(size)
	}
	if m.rules.share != tensor.F32 {
		p.residual = tensor.New(size)
	}
	return p
}

// set copies o, into the memory of p where it fits.
func (p *private) set(o private) {
	p.stage, p.t = o.stage, o.t
	p.m, p.v, p.residual = copied(p.m, o.m), copied(p.v, o.v), copied(p.residual, o.residual)
}

// copied returns a copy of x, in to if it fits.
func copied(to, x []float32) []float32 {
	if cap(to) < len(x) {
		to = tensor.New(len(x))
	}
	to = to[:len(x)]
	copy(to, x)
	return to
}

// hold adds a holder to a version.
func hold(v *version) *version {
	v.holders++
	return v
}

// release takes a holder from a version, and its memory back with the last.
func (m *Miner) release(v *version) {
	if v == nil {
		return
	}
	if v.holders--; v.holders == 0 {
		m.buffers.vectors.put(v.w)
		v.w = nil
	}
}

// newVersion returns memory for weights that the caller holds.
func (m *Miner) newVersion(step uint64) *version {
	return &version{w: m.buffers.vectors.take(), step: step, holders: 1}
}

// writable makes the current weights the miner's own, as version m.step.
func (m *Miner) writable() []float32 {
	if m.current.holders > 1 {
		next := m.newVersion(m.step)
		copy(next.w, m.current.w)
		m.release(m.current)
		m.current = next
	}
	m.current.step = m.step
	return m.current.w
}

// back returns to the last state that is known to be finite: weights, moments and residual of the epoch's start. The
// weights get a version number of their own, m.step.
func (m *Miner) back() {
	m.release(m.current)
	m.current = m.newVersion(m.step)
	copy(m.current.w, m.start.w)
	m.private.set(m.saved)
	m.floor = m.step
}

// own reports a number that is not finite although the inputs were, and goes back, unless the weights that made it are
// the epoch's own or gone already.
func (m *Miner) own(v *version, what string) error {
	if v != m.start && v.step > m.floor {
		m.step++
		m.back()
	}
	return &faulty{message.Fault_NON_FINITE_OWN, 0, what + " is not finite"}
}

// freeSlot ends slot i.
func (m *Miner) freeSlot(i int) {
	s := m.slots[i]
	m.slots = slices.Delete(m.slots, i, i+1)
	m.release(s.weights)
	m.buffers.putTape(s.tape)
	m.buffers.inputs.put(s.in)
	if m.buffers.taped == s {
		m.buffers.taped = nil
	}
}

// freeGradient gives up waiting gradient i.
func (m *Miner) freeGradient(i int) {
	m.buffers.vectors.put(m.waiting[i].g)
	m.waiting = slices.Delete(m.waiting, i, i+1)
}

// empty drops what belongs to unfinished micro-batches.
func (m *Miner) empty() {
	for len(m.slots) > 0 {
		m.freeSlot(0)
	}
	for len(m.waiting) > 0 {
		m.freeGradient(0)
	}
}

// Drop frees what the miner holds for an attempt that was refused or cancelled: the slot of a forward, or the gradient
// of a backward that waits and the slot that it would have used. Attempt 0 of a forward stands for any, and no task at
// all for everything that is held. Unknown ones are ignored.
func (m *Miner) Drop(id *message.TaskID, attempt uint32) {
	if id == nil {
		m.empty()
		return
	}
	if m.stage == nil || id.GetEpoch() != m.epoch || id.GetStage() != uint32(m.stage.Index()) {
		return
	}
	name := taskName{id.Key(), attempt}
	for i := len(m.waiting) - 1; i >= 0; i-- {
		if m.waiting[i].name == name {
			m.freeGradient(i)
		}
	}
	for i := len(m.slots) - 1; i >= 0; i-- {
		s := m.slots[i]
		forward := id.GetKind() == message.TaskKind_FORWARD && (s.attempt == attempt || attempt == 0)
		if s.batch == id.GetBatch() && (forward || id.GetKind() == message.TaskKind_BACKWARD) {
			m.freeSlot(i)
		}
	}
}

// commit writes the hash of the whole state into a receipt: stage, epoch, versions, rate, step count, weights, moments
// and residual, then the slots, each older weight version that they hold, and the gradients that wait.
func (m *Miner) commit(r *message.Receipt) {
	h := &stateHash{h: blake3.New()}
	_, _ = h.h.WriteString("iota state 1")
	h.number(uint64(m.stage.Index()), m.epoch, m.step, uint64(math.Float32bits(m.rate)), m.private.t)
	for _, x := range [][]float32{m.current.w, m.private.m, m.private.v, m.private.residual} {
		h.vector(x)
	}
	h.number(uint64(len(m.slots)))
	var seen []*version
	for _, s := range m.slots {
		r.Slots = append(r.Slots, &message.Summed{Batch: s.batch, Attempt: s.attempt, Step: s.step})
		h.number(s.batch, uint64(s.attempt), s.step)
		if v := s.weights; v != nil && v != m.current && !slices.Contains(seen, v) {
			seen = append(seen, v)
			h.vector(v.w)
		}
	}
	h.number(uint64(len(m.waiting)))
	for _, g := range m.waiting {
		r.Waiting = append(r.Waiting, &message.Summed{Batch: g.name.Batch, Attempt: g.name.attempt, Step: g.step})
		h.number(g.name.Batch, uint64(g.name.attempt), g.step)
		h.vector(g.g)
	}
	r.State = h.h.Sum(nil)
}

// stateHash hashes numbers in their one encoding.
type stateHash struct {
	h   *blake3.Hasher
	buf []byte
}

func (s *stateHash) number(values ...uint64) {
	s.buf = s.buf[:0]
	for _, v := range values {
		s.buf = binary.LittleEndian.AppendUint64(s.buf, v)
	}
	_, _ = s.h.Write(s.buf) // never fails
}

// vector hashes the length and the elements.
func (s *stateHash) vector(x []float32) {
	s.number(uint64(len(x)))
	_, _ = s.h.Write(tensor.Bytes(x))
}
