package miner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
)

// mid is a state between two inner steps, which a STEP receipt commits to, encoded.
type mid struct {
	stage       int
	epoch, step uint64
	blob        []byte
}

const midMagic = "iota-steps-1\x00\x00\x00\x00"

// keepMid keeps the state of a commitment for audits, so that a later stretch of the epoch can be replayed without the
// earlier ones. Those of the first H steps of an epoch are kept, and beyond them the newest: with it the closing segment,
// which has the share, can be replayed on its own.
func (m *Miner) keepMid() {
	if m.rules.window == 0 {
		return
	}
	s := mid{m.stage.Index(), m.epoch, m.step, m.encodeMid()}
	if n := len(m.mids); n > 0 && m.mids[n-1].outdatedBy(s, m.rules.mids) {
		m.mids = m.mids[:n-1]
	}
	m.mids = append(m.mids, s)
}

// outdatedBy reports whether a state beyond the first ones is no longer the newest.
func (s mid) outdatedBy(next mid, first uint64) bool {
	return s.stage == next.stage && s.epoch == next.epoch && s.step > first && next.step > s.step
}

// midEpochs is for how many epochs, the running one included, states of commitments are kept: their audits are drawn when
// an epoch is over, and ask for them before the next one's install.
const midEpochs = 2

// dropMids forgets the states of epochs that are too old when epoch next begins.
func (m *Miner) dropMids(next uint64) {
	m.mids = slices.DeleteFunc(m.mids, func(s mid) bool { return s.epoch+midEpochs <= next })
}

// encodeMid gives what a commitment covers but for the tapes of slots, which follow from their forwards: versions, step
// count, weights, moments and residual, then each older version that slots hold, the slots, and the gradients that wait.
func (m *Miner) encodeMid() []byte {
	p := &m.private
	older := m.olderVersions()
	vectors := (1+len(older)+len(m.waiting))*m.size + len(p.m) + len(p.v) + len(p.residual)
	b := append(make([]byte, 0, 4*vectors+1<<12), midMagic...)
	number := func(values ...uint64) {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	vector := func(x []float32) {
		number(uint64(len(x)))
		b = tensor.Encode(b, x, tensor.F32, 0)
	}
	number(uint64(m.stage.Index()), m.epoch, m.step, m.floor, p.t)
	for _, x := range [][]float32{m.current.w, p.m, p.v, p.residual} {
		vector(x)
	}
	number(uint64(len(older)))
	for _, v := range older {
		number(v.step)
		vector(v.w)
	}
	number(uint64(len(m.slots)))
	for _, s := range m.slots {
		number(s.batch, uint64(s.attempt), s.step, uint64(slices.Index(older, s.weights)+1))
	}
	number(uint64(len(m.waiting)))
	for _, g := range m.waiting {
		number(g.name.Batch, uint64(g.name.attempt), g.step)
		vector(g.g)
	}
	return b
}

// olderVersions are the weights that slots hold besides the current ones.
func (m *Miner) olderVersions() []*version {
	var list []*version
	for _, s := range m.slots {
		if v := s.weights; v != nil && v != m.current && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// heldSlot is a slot of an encoded state, whose forward is still to be done again.
type heldSlot struct {
	batch   uint64
	attempt uint32
	step    uint64
	weights *version // nil for the current ones
}

// resumeMid takes up an encoded state of the running epoch and returns its slots. It trusts nothing in it: what does not
// fit is an error, what fits and is false gives another commitment.
func (m *Miner) resumeMid(b []byte) ([]heldSlot, error) {
	if len(b) < len(midMagic) || string(b[:len(midMagic)]) != midMagic {
		return nil, errors.New("not a state between two steps")
	}
	d := &decoder{b: b[len(midMagic):]}
	if stage, epoch := d.number(), d.number(); stage != uint64(m.stage.Index()) || epoch != m.epoch {
		return nil, fmt.Errorf("a state of stage %d, epoch %d", stage, epoch)
	}
	m.step, m.floor = d.number(), d.number()
	m.private.t = min(d.number(), maxSteps)
	p := &m.private
	m.release(m.current)
	m.current = m.newVersion(m.step)
	for _, x := range [][]float32{m.current.w, p.m, p.v, p.residual} {
		d.vector(x)
	}
	most := uint64(m.rules.slots + m.rules.queue())
	var older []*version
	for range d.count(most) {
		v := m.newVersion(d.number())
		d.vector(v.w)
		older = append(older, v)
	}
	var slots []heldSlot
	for range d.count(most) {
		s := heldSlot{batch: d.number(), attempt: uint32(d.number()), step: d.number()}
		if i := d.number(); i > 0 && i <= uint64(len(older)) {
			s.weights = older[i-1]
		}
		slots = append(slots, s)
	}
	for range d.count(most) {
		key := message.Key{Kind: m.gradientKind(), Epoch: m.epoch, Batch: d.number(), Stage: uint32(m.stage.Index())}
		g := &gradient{name: taskName{key, uint32(d.number())}, step: d.number(), g: m.buffers.vectors.take()}
		d.vector(g.g)
		m.waiting = append(m.waiting, g)
	}
	if d.err == nil && len(d.b) > 0 {
		d.err = fmt.Errorf("%d bytes too many", len(d.b))
	}
	return slots, d.err
}

// decoder reads an encoded state. The first mistake stays in err, and everything after it is zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) number() uint64 {
	if d.err != nil || len(d.b) < 8 {
		d.fail(errors.New("the state is cut off"))
		return 0
	}
	v := binary.LittleEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

// count reads a number of things, at most so many.
func (d *decoder) count(most uint64) uint64 {
	n := d.number()
	if n > most {
		d.fail(fmt.Errorf("%d of at most %d", n, most))
		return 0
	}
	return n
}

// vector reads into x, which has the length that is right.
func (d *decoder) vector(x []float32) {
	n := 4 * len(x)
	if got := d.number(); d.err == nil && (got != uint64(len(x)) || len(d.b) < n) {
		d.fail(fmt.Errorf("a vector of %d numbers, want %d", got, len(x)))
	}
	if d.err != nil || n == 0 {
		return
	}
	if err := tensor.Decode(x, d.b[:n], tensor.F32); err != nil {
		d.fail(err)
		return
	}
	if d.b = d.b[n:]; !kernel.AllFinite(x) {
		d.fail(errors.New("the state is not finite"))
	}
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}
