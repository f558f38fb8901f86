package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/iota-train/iota/learn/kernel"
)

// TestTiledAttentionIsCausalSoftmax compares three tiles of queries with plain
// float64 arithmetic.
func TestTiledAttentionIsCausalSoftmax(t *testing.T) {
	c := Config{
		Vocab: 3, Width: 16, Heads: 4, KVHeads: 2, FFN: 1, SeqLen: 2*queryTile + 7, Batch: 2,
		Cuts: []int{1}, RopeTheta: 10000, Boundary: None, Wire: "f32",
	}
	s, err := NewStage(c, 0, kernel.New(2))
	if err != nil {
		t.Fatal(err)
	}
	defer s.e.Close()
	b, rng := &s.NewTape().blocks[0], rand.New(rand.NewPCG(1, 1))
	for _, x := range [][]float32{b.q, b.k, b.v} {
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
	}
	s.attention.forward(b)
	for row := range c.Batch {
		for head := range c.Heads {
			for pos := range c.SeqLen {
				want := naiveAttention(s, b, row, head, pos)
				got := b.mixed[(row*c.SeqLen+pos)*s.d+head*c.headDim():][:c.headDim()]
				for j := range want {
					if math.Abs(float64(got[j])-want[j]) > 2e-6 {
						t.Fatalf("row %d, head %d, position %d: got %v, want %v", row, head, pos, got, want)
					}
				}
			}
		}
	}
}

// naiveAttention computes one query's output; the scale is already in q.
func naiveAttention(s *Stage, b *blockTape, row, head, pos int) []float64 {
	c, dim := s.config, s.config.headDim()
	group := head / (c.Heads / c.KVHeads)
	at := func(x []float32, p, width, h int) []float32 {
		return x[(row*c.SeqLen+p)*width+h*dim:][:dim]
	}
	out, total := make([]float64, dim), 0.0
	for key := range pos + 1 {
		weight := math.Exp(kernel.Dot(at(b.q, pos, s.d, head), at(b.k, key, s.kv, group)))
		total += weight
		for j, v := range at(b.v, key, s.kv, group) {
			out[j] += weight * float64(v)
		}
	}
	for j := range out {
		out[j] /= total
	}
	return out
}
