package miner

import (
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/tensor"
)

// buffers are what a stage needs besides its state: pools, so that training allocates nothing once it runs, and buffers
// that hold nothing between two tasks.
type buffers struct {
	vectors vectors // as long as the stage's weights
	inputs  vectors // as long as a wire
	tapes   []*model.Tape

	tape  *model.Tape // of work that is done with it at once
	taped *slot       // whose forward tape still holds, under recompute
	at    uint64      // with these weights

	tokens []int32
	bytes  []byte
	wires
}

// wires are the buffers of a task: the incoming wire, the outgoing one, their gradients (grad comes in, to goes out), and
// one as its receiver decodes it. Those that a stage has no use for are nil.
type wires struct {
	in, out, grad, to, check []float32
}

// layout carves the wires of a stage.
func (y *wires) layout(c model.Config, stage int) func(a *tensor.Arena) {
	wire := c.Rows() * c.WireWidth()
	return func(a *tensor.Arena) {
		if stage > 0 {
			y.in, y.to = a.Take(wire), a.Take(wire)
		}
		if stage < c.Stages()-1 {
			y.out, y.grad = a.Take(wire), a.Take(wire)
		}
		if c.Stages() > 1 && tensor.DType(c.Wire) != tensor.F32 {
			y.check = a.Take(wire)
		}
	}
}

// newBuffers returns the buffers of a stage.
func newBuffers(s *model.Stage, size int) buffers {
	c := s.Config()
	y := buffers{
		vectors: vectors{size: size}, inputs: vectors{size: c.Rows() * c.WireWidth()}, tape: s.NewTape(),
		tokens: make([]int32, c.Batch*(c.SeqLen+1)),
	}
	tensor.Carve(y.wires.layout(c, s.Index()))
	return y
}

// vectors lends vectors of one size. Their content is undefined.
type vectors struct {
	size int
	free [][]float32
}

func (p *vectors) take() []float32 {
	if n := len(p.free); n > 0 {
		x := p.free[n-1]
		p.free = p.free[:n-1]
		return x
	}
	return tensor.New(p.size)
}

// put takes a vector back; nil is ignored.
func (p *vectors) put(x []float32) {
	if x != nil {
		p.free = append(p.free, x)
	}
}

// shards are buffers for the numbers of shards of any stage, which hold nothing between two tasks. They are as long as
// the longest that they were needed for.
type shards [][]float32

// hold makes room for n shards.
func (s *shards) hold(n int) {
	for len(*s) < n {
		*s = append(*s, nil)
	}
}

func (y *buffers) takeTape(s *model.Stage) *model.Tape {
	if n := len(y.tapes); n > 0 {
		t := y.tapes[n-1]
		y.tapes = y.tapes[:n-1]
		return t
	}
	return s.NewTape()
}

func (y *buffers) putTape(t *model.Tape) {
	if t != nil {
		y.tapes = append(y.tapes, t)
	}
}
