package model

import (
	"fmt"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/tensor"
)

// Tape holds what the forward pass of one micro-batch saves for its backward
// pass. It may be used again for the next one, by the stage that made it.
type Tape struct {
	tokens  []int32   // [B, T+1]
	inputs  []int32   // [B*T]
	targets []int32   // [B*T]
	in      []float32 // the incoming wire, nil in the first stage
	seqLen  int

	blocks []blockTape

	n, inv []float32        // final norm: output and 1/rms, last stage only
	loss   *kernel.LossRows // last stage only
}

// blockTape holds the tensors of one block, [B*T, width]; the names are those of
// the block's definition in forwardBlock.
type blockTape struct {
	x        []float32 // input, d
	decoded  []float32 // decode(s) before the relu, d: receiving blocks only
	n1, inv1 []float32 // first norm: d and 1
	q        []float32 // rotated and scaled, d
	k, v     []float32 // rotated keys, and values: kv
	mixed    []float32 // output of the attention heads, d
	lse      []float32 // [B, heads, T], log of the sum of each query's e^score
	h        []float32 // d
	n2, inv2 []float32 // second norm: d and 1
	gate, up []float32 // f
	u        []float32 // f
	y        []float32 // output, d: nil in sending blocks
	deep     []float32 // down(u), d: sending blocks only
	active   []float32 // silu(down(u)), d: sending blocks only
}

// NewTape allocates a tape for the stage, in one arena.
func (s *Stage) NewTape() *Tape {
	var t *Tape
	tensor.Carve(func(a *tensor.Arena) { t = s.config.layTape(a, s.index) })
	ints := make([]int32, s.config.tapeInts())
	t.inputs, ints = ints[:s.rows], ints[s.rows:]
	t.targets, t.tokens = ints[:s.rows], ints[s.rows:]
	return t
}

// take copies the inputs of a forward pass into the tape.
func (t *Tape) take(e *kernel.Engine, tokens []int32, in []float32) {
	if len(tokens) != len(t.tokens) || len(in) < len(t.in) {
		panic(fmt.Sprintf("model: forward of %d tokens and a wire of %d numbers, want %d and %d",
			len(tokens), len(in), len(t.tokens), len(t.in)))
	}
	copy(t.tokens, tokens)
	e.Copy(t.in, in[:len(t.in)])
	for row := 0; row*t.seqLen < len(t.inputs); row++ {
		from := row * (t.seqLen + 1)
		copy(t.inputs[row*t.seqLen:(row+1)*t.seqLen], tokens[from:])
		copy(t.targets[row*t.seqLen:(row+1)*t.seqLen], tokens[from+1:])
	}
}
