package miner

import (
	"errors"
	"fmt"
	"slices"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
)

// reduce merges one shard of a stage by the rule of the run, not always the miner's own: a pure function of the sources
// and their weights. A source that is empty, of a wrong length or not finite is left out, as the statistics say.
func (m *Miner) reduce(w *work) error {
	if w.elements < 0 {
		if err := m.measureShard(w); err != nil {
			return err
		}
	}
	if len(w.inputs) == 0 || len(w.inputs) != len(w.weights) {
		return fmt.Errorf("%d sources and %d weights", len(w.inputs), len(w.weights))
	}
	w.receipt.Weights, w.receipt.Elements = w.weights, uint64(w.elements)
	dt := m.rules.share
	sources, weights := make([][]float32, len(w.inputs)), make([]float64, len(w.inputs))
	m.shards.hold(len(w.inputs) + 1)
	for i, blob := range w.inputs {
		weights[i] = float64(w.weights[i])
		if x, err := tensor.Read(&m.shards[i+1], w.elements, blob, dt); err == nil {
			sources[i] = x
		}
	}
	m.shards[0] = slices.Grow(m.shards[0][:0], w.elements)
	result := m.shards[0][:w.elements]
	for _, s := range m.reducer.Reduce(result, sources, weights) {
		w.receipt.Sources = append(w.receipt.Sources, &message.SourceStats{Finite: s.Finite, Norm2: s.SquaredNorm, Dot: s.Dot})
	}
	w.receipt.ResultNorm2 = kernel.SumSquares(result)
	blob := tensor.Encode(nil, result, dt, 0)
	if dt != tensor.F32 { // which keeps every bit
		if err := tensor.Decode(result, blob, dt); err != nil {
			return err
		}
	}
	if !kernel.AllFinite(result) {
		return failed("the result is too large for %s", dt)
	}
	w.give(blob)
	return nil
}

// measureShard finds the length of the shard that a task names.
func (m *Miner) measureShard(w *work) error {
	stage := int(w.id.GetStage())
	if stage >= m.config.Stages() {
		return fmt.Errorf("the model has %d stages", m.config.Stages())
	}
	bounds, err := m.bounds(w, m.config.StageSize(stage))
	if err != nil {
		return err
	}
	shard := int(w.id.GetShard())
	if shard >= len(bounds)-1 {
		return errors.New("the plan has no such shard")
	}
	w.elements = int(bounds[shard+1] - bounds[shard])
	return nil
}
