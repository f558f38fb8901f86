package miner

import (
	"fmt"
	"slices"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/optim"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
)

// install takes the outer step from the weights at the start of the epoch, and begins the next epoch. A shard that was
// lost has g = 0: its momentum still acts. What the epoch left unfinished is dropped.
func (m *Miner) install(w *work) error {
	if err := m.here(w); err != nil {
		return err
	}
	rate, err := readRate(w.rate)
	if err != nil {
		return err
	}
	w.receipt.Plan, w.receipt.RateBits = w.plan, w.rate
	g := m.buffers.vectors.take()
	defer m.buffers.vectors.put(g)
	merged, err := m.merged(w, w.inputs, g)
	if err != nil {
		return err
	}
	next, outer := m.newVersion(0), m.buffers.vectors.take()
	if err := m.nesterov(next.w, outer, m.start.w, m.outer, merged); err != nil {
		m.release(next)
		m.buffers.vectors.put(outer)
		return err
	}
	w.receipt.Step = m.current.step
	m.buffers.vectors.put(m.outer)
	m.outer = outer
	m.empty()
	m.release(m.start)
	m.release(m.current)
	m.keepStart(m.epoch + 1)
	m.saved.set(m.private)
	m.begin(m.epoch+1, rate, next)
	m.mark = mark{m.epoch, rate}
	w.receipt.Outputs = []*message.BlobRef{m.checkpoint().ref()}
	m.commit(w.receipt)
	return nil
}

// merged reads the merged shards of a task's plan, in order. They lie in the inputs or in g, as long as the stage.
func (m *Miner) merged(w *work, inputs [][]byte, g []float32) ([][]float32, error) {
	bounds, err := m.bounds(w, len(g))
	if err != nil {
		return nil, err
	}
	if len(inputs) != len(bounds)-1 {
		return nil, fmt.Errorf("%d merged shards, the plan has %d", len(inputs), len(bounds)-1)
	}
	merged := make([][]float32, len(inputs))
	for i, blob := range inputs {
		shard := g[bounds[i]:bounds[i+1]]
		if len(blob) == 0 {
			clear(shard)
			merged[i] = shard
			continue
		}
		if merged[i], err = tensor.Read(&shard, len(shard), blob, m.rules.share); err != nil {
			return nil, fmt.Errorf("merged shard %d: %w", i, err)
		}
		if !kernel.AllFinite(merged[i]) {
			return nil, &faulty{message.Fault_NON_FINITE_INPUT, i, fmt.Sprintf("merged shard %d is not finite", i)}
		}
	}
	return merged, nil
}

// outerBlock is the number of weights whose outer step is taken and checked at a time, while they are at hand.
const outerBlock = 1 << 13

// nesterov is the outer step of a whole stage, checked. It writes theta and the next momentum, which may be the start and
// the momentum.
func (m *Miner) nesterov(theta, next, start, momentum []float32, merged [][]float32) error {
	from, finite := 0, true
	for _, shard := range merged {
		for g := range slices.Chunk(shard, outerBlock) {
			to := from + len(g)
			optim.Nesterov(theta[from:to], next[from:to], start[from:to], momentum[from:to], g, m.rules.outerRate, m.rules.momentum)
			finite = finite && kernel.AllFinite(theta[from:to]) && kernel.AllFinite(next[from:to])
			from = to
		}
	}
	if !finite {
		return failed("the weights after the outer step are not finite")
	}
	return nil
}

// outerStep recomputes the outer step of any stage from blobs: the checkpoint, if the stage has one, then the merged shards.
func (m *Miner) outerStep(w *work) error {
	stage := int(w.id.GetStage())
	if stage >= m.config.Stages() {
		return fmt.Errorf("the model has %d stages", m.config.Stages())
	}
	rate, err := readRate(w.rate)
	if err != nil {
		return err
	}
	w.receipt.Plan, w.receipt.RateBits = w.plan, w.rate
	shards := len(w.plan.GetFirst())
	if len(w.inputs) < shards {
		return fmt.Errorf("%d inputs for %d shards", len(w.inputs), shards)
	}
	from := *w
	from.inputs = w.inputs[:len(w.inputs)-shards]
	c, err := m.origin(&from, stage)
	if err != nil {
		return err
	}
	g := make([]float32, len(c.weights))
	merged, err := m.merged(w, w.inputs[len(w.inputs)-shards:], g)
	if err != nil {
		return err
	}
	if err := m.nesterov(c.weights, c.outer, c.weights, c.outer, merged); err != nil {
		return err
	}
	c.mark = mark{w.id.GetEpoch() + 1, rate}
	w.receipt.Outputs = []*message.BlobRef{c.ref()}
	return nil
}
