package miner

import (
	"errors"
	"fmt"
	"slices"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/optim"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/butterfly"
	"github.com/iota-train/iota/protocol/message"
)

// closeEpoch ends the training of the epoch without a share.
func (m *Miner) closeEpoch(w *work) error {
	if err := m.here(w); err != nil {
		return err
	}
	if err := w.want(0); err != nil {
		return err
	}
	err := m.finish(w)
	m.commit(w.receipt)
	return err
}

// finish steps a partial sum with its true count, and drops every slot and waiting gradient. The state is the caller's
// to commit.
func (m *Miner) finish(w *work) error {
	m.empty()
	w.receipt.Step = m.current.step
	var err error
	if len(m.summed) > 0 {
		err = m.stepSum(w.receipt)
	}
	m.closed = true
	return err
}

// share ends the training of the epoch and gives the pseudo-gradient.
func (m *Miner) share(w *work) error {
	if err := m.here(w); err != nil {
		return err
	}
	if err := w.want(0); err != nil {
		return err
	}
	bounds, err := m.bounds(w, m.size)
	if err != nil {
		return err
	}
	w.receipt.Plan = w.plan
	err = m.finish(w)
	if err == nil {
		err = m.givePseudoGradient(w, bounds)
	}
	m.commit(w.receipt)
	return err
}

// givePseudoGradient gives epoch-start weights minus current ones, every shard encoded on its own. What a lossy encoding
// leaves out stays in the residual and is added to the next share: sent + residual = pseudo-gradient + the residual
// before, exactly.
func (m *Miner) givePseudoGradient(w *work, bounds []uint64) error {
	x := m.buffers.vectors.take()
	defer m.buffers.vectors.put(x)
	copy(x, m.start.w)
	kernel.Sub(x, m.current.w)
	w.receipt.UpdateNorm2 = optim.NormSquared(m.stage.Params(), x)
	if m.rules.share != tensor.F32 {
		kernel.Add(x, m.saved.residual) // of the last epoch's share, also if this one is shared again
	}
	err := m.encodeShards(w, x, bounds)
	if err != nil {
		m.step++
		m.back()
	}
	return err
}

// encodeShards gives one blob per shard, and leaves in the residual what they lack of x.
func (m *Miner) encodeShards(w *work, x []float32, bounds []uint64) error {
	dt := m.rules.share
	if !kernel.AllFinite(x) {
		return &faulty{message.Fault_NON_FINITE_OWN, 0, "the pseudo-gradient is not finite"}
	}
	sent, lossy := x, dt != tensor.F32
	if lossy {
		sent = m.buffers.vectors.take()
		defer m.buffers.vectors.put(sent)
	}
	for i, from := range bounds[:len(bounds)-1] {
		to := bounds[i+1]
		blob := tensor.Encode(nil, x[from:to], dt, 0)
		w.give(blob)
		if !lossy {
			continue
		}
		if err := tensor.Decode(sent[from:to], blob, dt); err != nil {
			return err
		}
	}
	if !lossy {
		return nil
	}
	if !kernel.AllFinite(sent) {
		return &faulty{message.Fault_NON_FINITE_OWN, 0, "the pseudo-gradient is too large for " + string(dt)}
	}
	m.private.residual = append(m.private.residual[:0], x...)
	kernel.Sub(m.private.residual, sent)
	return nil
}

// bounds checks the plan of a task for the stage that it names, of size weights, and returns the bounds of its shards.
func (m *Miner) bounds(w *work, size int) ([]uint64, error) {
	p := w.plan
	switch {
	case p == nil:
		return nil, errors.New("no plan")
	case p.GetEpoch() != w.id.GetEpoch() || p.GetStage() != w.id.GetStage():
		return nil, fmt.Errorf("the plan is of stage %d, epoch %d", p.GetStage(), p.GetEpoch())
	case len(p.GetFirst()) != len(p.GetSecond()) || len(p.GetBounds()) != len(p.GetFirst())+1:
		return nil, fmt.Errorf("plan with %d bounds, %d and %d owners", len(p.GetBounds()), len(p.GetFirst()), len(p.GetSecond()))
	}
	b := p.GetBounds()
	if len(p.GetMembers()) == 0 && len(b) == 2 && b[0] == 0 && b[1] == uint64(size) {
		return b, nil // nobody qualified: the whole stage is one shard without owners, which is lost
	}
	pairs := make([]butterfly.Pair, len(p.GetFirst()))
	for i := range pairs {
		pairs[i] = butterfly.Pair{First: int(p.GetFirst()[i]), Second: int(p.GetSecond()[i])}
	}
	if _, err := butterfly.FromPairs(len(p.GetMembers()), size, pairs); err != nil {
		return nil, err
	}
	if b[0] != 0 || b[len(b)-1] != uint64(size) || !slices.IsSorted(b) {
		return nil, fmt.Errorf("the plan's bounds do not cut %d weights", size)
	}
	return b, nil
}
