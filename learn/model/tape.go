package model

import (
	"fmt"

	"github.com/iota-train/iota/learn/kernel"
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

// NewTape allocates a tape for the stage.
func (s *Stage) NewTape() *Tape {
	alloc := func(width int) []float32 { return make([]float32, s.rows*width) }
	t := &Tape{
		tokens: make([]int32, s.config.Batch*(s.config.SeqLen+1)),
		inputs: make([]int32, s.rows), targets: make([]int32, s.rows),
		seqLen: s.config.SeqLen,
		blocks: make([]blockTape, len(s.blocks)),
	}
	var x []float32
	if !s.first() {
		t.in = alloc(s.k)
	}
	if !s.first() && s.config.Boundary == None {
		x = t.in // the wire is the input of the first block
	} else {
		x = alloc(s.d)
	}
	for i, w := range s.blocks {
		b := blockTape{
			x: x, n1: alloc(s.d), inv1: alloc(1),
			q: alloc(s.d), k: alloc(s.kv), v: alloc(s.kv), mixed: alloc(s.d), lse: alloc(s.config.Heads),
			h: alloc(s.d), n2: alloc(s.d), inv2: alloc(1),
			gate: alloc(s.f), up: alloc(s.f), u: alloc(s.f),
		}
		if w.receives {
			b.decoded = alloc(s.d)
		}
		if w.sends {
			b.deep, b.active = alloc(s.d), alloc(s.d)
		} else {
			b.y = alloc(s.d)
		}
		t.blocks[i], x = b, b.y
	}
	if s.last() {
		t.n, t.inv = alloc(s.d), alloc(1)
		t.loss = kernel.NewLossRows(s.rows)
	}
	return t
}

// take copies the inputs of a forward pass into the tape.
func (t *Tape) take(tokens []int32, in []float32) {
	if len(tokens) != len(t.tokens) || len(in) < len(t.in) {
		panic(fmt.Sprintf("model: forward of %d tokens and a wire of %d numbers, want %d and %d",
			len(tokens), len(in), len(t.tokens), len(t.in)))
	}
	copy(t.tokens, tokens)
	copy(t.in, in)
	for row := 0; row*t.seqLen < len(t.inputs); row++ {
		from := row * (t.seqLen + 1)
		copy(t.inputs[row*t.seqLen:(row+1)*t.seqLen], tokens[from:])
		copy(t.targets[row*t.seqLen:(row+1)*t.seqLen], tokens[from+1:])
	}
}
