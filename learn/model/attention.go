package model

import "github.com/iota-train/iota/learn/kernel"

// queryTile is the number of queries per tile; it is part of the numerics.
const queryTile = 64

// attention mixes values by causal softmax over query-key products, one work
// item per row of the batch and key/value head. Its memory is linear in T.
type attention struct {
	e                  *kernel.Engine
	batch, T, groups   int // groups: key/value heads
	perGroup           int // query heads per group
	dim, d, kv         int
	tiles              chan *attentionTile // free scratch, one per thread
	forwardItem        func(e *kernel.Engine, i int)
	backwardItem       func(e *kernel.Engine, i int)
	b                  *blockTape // of the running call
	dmixed, dq, dk, dv []float32  // of the running backward
}

func (a *attention) init(s *Stage) {
	c := s.config
	*a = attention{
		e: s.e, batch: c.Batch, T: c.SeqLen, groups: c.KVHeads, perGroup: c.Heads / c.KVHeads,
		dim: c.headDim(), d: s.d, kv: s.kv,
		tiles: make(chan *attentionTile, len(s.scratch.tiles)),
	}
	for i := range s.scratch.tiles {
		a.tiles <- &s.scratch.tiles[i]
	}
	a.forwardItem, a.backwardItem = a.forwardGroup, a.backwardGroup // bound once: no allocation per call
}

// forward sets b.mixed from b.q, b.k and b.v.
func (a *attention) forward(b *blockTape) {
	a.b = b
	a.e.For(a.batch*a.groups, a.forwardItem)
	a.b = nil
}

// backward sets dq, dk and dv, the gradients by b.q, b.k and b.v, from that by
// b.mixed.
func (a *attention) backward(b *blockTape, dmixed, dq, dk, dv []float32) {
	a.b, a.dmixed, a.dq, a.dk, a.dv = b, dmixed, dq, dk, dv
	a.e.For(a.batch*a.groups, a.backwardItem)
	a.b, a.dmixed, a.dq, a.dk, a.dv = nil, nil, nil, nil, nil
}

// queries views positions [from, from+n) of a query head in x, [B*T, d].
func (a *attention) queries(x []float32, row, from, n, head int) kernel.Mat {
	return kernel.View(x[(row*a.T+from)*a.d+head*a.dim:], n, a.dim, a.d)
}

// keys views the first n positions of a key/value head in x, [B*T, kv].
func (a *attention) keys(x []float32, row, n, group int) kernel.Mat {
	return kernel.View(x[row*a.T*a.kv+group*a.dim:], n, a.dim, a.kv)
}

// logSums views what b.lse holds of a query head's positions [from, from+n).
func (a *attention) logSums(row, from, n, head int) []float32 {
	return a.b.lse[(row*a.groups*a.perGroup+head)*a.T+from:][:n]
}

// forwardGroup does one item: a row of the batch and a key/value head.
func (a *attention) forwardGroup(e *kernel.Engine, item int) {
	tile := <-a.tiles
	row, group := item/a.groups, item%a.groups
	for head := group * a.perGroup; head < (group+1)*a.perGroup; head++ {
		for from := 0; from < a.T; from += queryTile {
			n := min(queryTile, a.T-from)
			p := a.scores(e, tile, row, group, head, from, n)
			e.SoftmaxExp(p.Data, tile.perRow, a.logSums(row, from, n, head), n, p.Cols, p.Stride, from)
			mixed := a.queries(a.b.mixed, row, from, n, head)
			e.MatMul(mixed, p, a.keys(a.b.v, row, from+n, group))
			e.ScaleRows(mixed.Data, tile.perRow, n, a.dim, mixed.Stride)
		}
	}
	a.tiles <- tile
}

// scores computes a tile's queries times all keys up to the end of the tile,
// [n, from+n].
func (a *attention) scores(e *kernel.Engine, tile *attentionTile, row, group, head, from, n int) kernel.Mat {
	s := kernel.View(tile.p, n, from+n, a.T)
	e.MatMul(s, a.queries(a.b.q, row, from, n, head), a.keys(a.b.k, row, from+n, group).T())
	return s
}

// backwardGroup does one item. Tiles run from the last to the first, so that the
// first one of a group covers all its keys and sets dk and dv; the others add.
func (a *attention) backwardGroup(e *kernel.Engine, item int) {
	tile := <-a.tiles
	row, group := item/a.groups, item%a.groups
	lastTile := (a.T - 1) / queryTile * queryTile
	for head := group * a.perGroup; head < (group+1)*a.perGroup; head++ {
		for from := lastTile; from >= 0; from -= queryTile {
			n := min(queryTile, a.T-from)
			a.backwardTile(e, tile, row, group, head, from, n, head == group*a.perGroup && from == lastTile)
		}
	}
	a.tiles <- tile
}

func (a *attention) backwardTile(e *kernel.Engine, tile *attentionTile, row, group, head, from, n int, set bool) {
	end := from + n
	dout := a.queries(a.dmixed, row, from, n, head)
	e.RowDots(tile.perRow, dout.Data, a.queries(a.b.mixed, row, from, n, head).Data, n, a.dim, dout.Stride)
	p, ds := a.scores(e, tile, row, group, head, from, n), kernel.View(tile.dp, n, end, a.T)
	e.MatMul(ds, dout, a.keys(a.b.v, row, end, group).T())
	e.SoftmaxBackward(p.Data, ds.Data, a.logSums(row, from, n, head), tile.perRow, n, end, a.T, from)
	a.accumulate(e, a.keys(a.dv, row, end, group), p, dout, set)
	a.accumulate(e, a.keys(a.dk, row, end, group), ds, a.queries(a.b.q, row, from, n, head), set)
	e.MatMul(a.queries(a.dq, row, from, n, head), ds, a.keys(a.b.k, row, end, group))
}

// accumulate sets to = x^T y, or adds it.
func (a *attention) accumulate(e *kernel.Engine, to, x, y kernel.Mat, set bool) {
	if set {
		e.MatMul(to, x.T(), y)
	} else {
		e.MatMulAdd(to, x.T(), y)
	}
}
