package model

import (
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/tensor"
)

// Everything that a stage and its tapes allocate is laid out here. The layouts
// run on arenas: once to count, so that Memory can tell before anything is
// allocated, and once to carve.

// Memory is what the parts of one stage take, in bytes. docs/memory.md has the
// formulas.
type Memory struct {
	Vector int // as long as the stage's weights: weights, a gradient, a moment
	Wire   int // what crosses a boundary for one micro-batch, as float32
	Tape   int
	Stage  int // scratch, rotary tables and fixed buffers of a Stage
}

// Memory returns what a stage takes on an engine of so many threads. A Stage
// that computes Logits has a tape more.
func (c Config) Memory(stage, threads int) Memory {
	var x scratch
	return Memory{
		Vector: floatBytes * c.StageSize(stage),
		Wire:   floatBytes * c.Rows() * c.WireWidth(),
		Tape:   tensor.Measure(func(a *tensor.Arena) { c.layTape(a, stage) }) + intBytes*c.tapeInts(),
		Stage:  tensor.Measure(func(a *tensor.Arena) { x.lay(a, c, stage, threads) }) + floatBytes*c.fixed(),
	}
}

const floatBytes, intBytes = 4, 4

// fixed is the number of float32s that a stage derives once: the tables of the
// rotary positions, and with SSN both buffers.
func (c Config) fixed() int {
	n := c.SeqLen * c.headDim()
	if c.Boundary == SSN {
		n += c.Width*c.BoundaryWidth + c.Vocab*c.Width
	}
	return n
}

// scratch is the memory of a stage that holds nothing between two calls.
type scratch struct {
	low        []float32       // [rows, k]
	dx, dn, dt []float32       // [rows, d]
	du, dg     []float32       // [rows, FFN]
	dq         []float32       // [rows, d]
	dk, dv     []float32       // [rows, kv]
	logits     []float32       // [rows, min(V, vocabChunk)], last stage only
	discard    []float32       // [rows, k], the wire that Recompute throws away
	tiles      []attentionTile // one per thread
}

func (x *scratch) lay(a *tensor.Arena, c Config, stage, threads int) {
	take := func(width int) []float32 { return a.Take(c.Rows() * width) }
	d, kv, k := c.Width, c.kvWidth(), c.WireWidth()
	x.low = take(k)
	x.dx, x.dn, x.dt = take(d), take(d), take(d)
	x.du, x.dg = take(c.FFN), take(c.FFN)
	x.dq = take(d)
	x.dk, x.dv = take(kv), take(kv)
	if c.isLast(stage) {
		x.logits = take(min(c.Vocab, vocabChunk))
	}
	x.discard = take(k)
	x.tiles = make([]attentionTile, threads)
	for i := range x.tiles {
		x.tiles[i].lay(a, c)
	}
}

// attentionTile is one thread's scratch of the attention.
type attentionTile struct {
	p, dp  []float32 // [queryTile, T]
	perRow []float32 // [queryTile]
}

func (t *attentionTile) lay(a *tensor.Arena, c Config) {
	t.p, t.dp = a.Take(queryTile*c.SeqLen), a.Take(queryTile*c.SeqLen)
	t.perRow = a.Take(queryTile)
}

// tapeInts is the number of integers of a tape: the tokens, the inputs, and the
// targets.
func (c Config) tapeInts() int { return c.Batch*(c.SeqLen+1) + 2*c.Rows() }

// layTape returns a stage's tape but for its tokens.
func (c Config) layTape(a *tensor.Arena, stage int) *Tape {
	take := func(width int) []float32 { return a.Take(c.Rows() * width) }
	d := c.Width
	t := &Tape{seqLen: c.SeqLen, blocks: make([]blockTape, c.Cuts[stage])}
	if stage > 0 {
		t.in = take(c.WireWidth())
	}
	x := t.in
	if stage == 0 || c.Boundary != None { // else the wire is the input of the first block
		x = take(d)
	}
	for i := range t.blocks {
		b := &t.blocks[i]
		b.lay(take, c, x)
		if c.receives(stage, c.firstBlock(stage)+i) {
			b.decoded = take(d)
		}
		if c.sends(stage, c.firstBlock(stage)+i) {
			b.deep, b.active = take(d), take(d)
		} else {
			b.y = take(d)
		}
		x = b.y
	}
	if c.isLast(stage) {
		t.n, t.inv = take(d), take(1)
		t.loss = &kernel.LossRows{Max: take(1), Sum: take(1), Target: take(1)}
	}
	return t
}

// lay takes what every block needs; x is its input.
func (b *blockTape) lay(take func(width int) []float32, c Config, x []float32) {
	d, kv, f := c.Width, c.kvWidth(), c.FFN
	b.x = x
	b.n1, b.inv1 = take(d), take(1)
	b.q, b.k, b.v, b.mixed, b.lse = take(d), take(kv), take(kv), take(d), take(c.Heads)
	b.h = take(d)
	b.n2, b.inv2 = take(d), take(1)
	b.gate, b.up, b.u = take(f), take(f), take(f)
}
