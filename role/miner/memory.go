package miner

import (
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/aggregate"
	"github.com/iota-train/iota/protocol/message"
)

// Memory is the most that a miner of a stage ever holds, in bytes, by what it is for. docs/memory.md has the formulas.
type Memory struct {
	Weights   int // of now and of the epoch's start, and the outer momentum
	Optimizer int // both moments and the residual, of now and of the epoch's start
	Gradients int // the sum, those that wait for their acknowledgement, and one in the making
	Stash     int // older weights that slots still hold
	Tapes     int // one per slot, and one for work that is done with it at once
	Scratch   int // of the stage and of the wires in the making
	Wires     int // inputs that slots keep, and outputs that may have to be given again
	Audits    int // states of epochs gone by and of commitments; none without a challenge window
	Merge     int // shards and checkpoints, between two epochs
}

// training returns what a miner holds before its first merge.
func (m Memory) training() int {
	return m.Weights + m.Optimizer + m.Gradients + m.Stash + m.Tapes + m.Scratch + m.Wires + m.Audits
}

// Total returns all of it.
func (m Memory) Total() int { return m.training() + m.Merge }

// MemoryOf returns what a miner of a stage needs, on an engine of so many threads and with so many miners in the stage.
// Nothing is allocated. Rules and config must be sound.
func MemoryOf(c model.Config, r *message.Rules, stage, threads, miners int) Memory {
	return readRules(r).memory(c, stage, threads, max(1, miners))
}

func (r rules) memory(c model.Config, stage, threads, miners int) Memory {
	s := c.Memory(stage, threads)
	first, last := stage == 0, stage == c.Stages()-1
	m := Memory{
		Weights: 3 * s.Vector, Gradients: (r.queue() + 2) * s.Vector,
		Tapes:   s.Tape,
		Scratch: s.Stage + tensor.Measure(new(wires).layout(c, stage)) + 4*c.Batch*(c.SeqLen+1),
		Merge:   r.mergeMemory(c.StageSize(stage), miners),
	}
	if r.optimizer == adamW {
		m.Optimizer += 4 * s.Vector
	}
	if r.share != tensor.F32 {
		m.Optimizer += 2 * s.Vector
	}
	if r.window > 0 { // a state at a step has all that the miner then holds but the start
		state := m.Optimizer / 2
		older := r.queue() * s.Vector
		if !last && !r.recompute {
			older += r.slots * s.Vector
		}
		m.Audits = r.kept()*state + midEpochs*(int(r.mids/r.commitEvery)+1)*(s.Vector+state+older)
	}
	if !last && !r.recompute {
		m.Stash, m.Tapes = r.slots*s.Vector, m.Tapes+r.slots*s.Tape
	}
	if !first && !last && r.recompute {
		m.Wires += r.slots * s.Wire
	}
	if !first || !last {
		m.Wires += kept(r.slots) * tensor.EncodedSize(c.Rows()*c.WireWidth(), tensor.DType(c.Wire))
	}
	return m
}

// mergeMemory is the larger of two moments: that of a reduction or an install, when the miner holds its share, what it
// reduced and what others did, and that after the install, when it gives the checkpoint and its private state. Besides,
// there are the buffers of a reduction.
func (r rules) mergeMemory(size, miners int) int {
	shards, own := max(1, miners*(miners-1)/2), max(1, miners-1)
	shard := (size + shards - 1) / shards
	buffers, state := 1, 0
	if r.share != tensor.F32 {
		buffers, state = miners+1, size
	}
	if r.optimizer == adamW {
		state += 2 * size
	}
	centre := 0
	if reducer, err := aggregate.New(r.aggregate); err == nil {
		centre = reducer.Memory(shard)
	}
	one := tensor.EncodedSize(shard, r.share)
	during := tensor.EncodedSize(size, r.share) + own*one + max(miners*one, tensor.EncodedSize(size, r.share))
	after := 4 * (2*size + state)
	return 4*buffers*shard + centre + max(during, after)
}
