package model

import (
	"fmt"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/tensor"
)

// Stage computes a slice of consecutive blocks, with the embedding before them
// in the first stage and the head behind them in the last. It owns scratch
// memory, in one arena, and belongs to one goroutine at a time.
type Stage struct {
	config Config
	index  int
	e      *kernel.Engine
	params []Param

	rows     int // B*T
	d, kv, f int // widths of the residual, of all keys, and of the feed-forward part
	k        int // width of the wire
	blocks   []blockWeights
	embed    weight
	norm     weight
	head     weight

	rope  *kernel.Rope
	scale float32 // of attention scores

	u, table []float32 // fixed buffers of SSN: [d, k] and [V, d]

	attention attention
	scratch   scratch
	spare     *Tape // of Logits
}

// NewStage prepares stage index of a config, to compute on e. The buffers of SSN
// are derived from the config's seed.
func NewStage(c Config, index int, e *kernel.Engine) (*Stage, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("stage %d: %w", index, err)
	}
	if index < 0 || index >= c.Stages() {
		return nil, fmt.Errorf("stage %d: the model has %d stages", index, c.Stages())
	}
	s := &Stage{
		config: c, index: index, e: e, params: c.Params(index),
		rows: c.Rows(), d: c.Width, kv: c.kvWidth(), f: c.FFN, k: c.WireWidth(),
		rope: kernel.NewRope(c.SeqLen, c.headDim(), c.RopeTheta),
	}
	at := places(s.params)
	s.embed, s.norm, s.head = at[embedName], at[normName], at[headName]
	first := c.firstBlock(index)
	for i := range c.Cuts[index] {
		s.blocks = append(s.blocks, c.blockWeights(index, first+i, at))
	}
	s.scale = invSqrt(c.headDim())
	tensor.Carve(func(a *tensor.Arena) { s.scratch.lay(a, c, index, e.Threads()) })
	s.attention.init(s)
	if c.Boundary == SSN {
		s.SetBuffers(DeriveBuffers(c))
	}
	return s, nil
}

// Config returns the config that the stage was made of.
func (s *Stage) Config() Config { return s.config }

// Index returns the number of the stage, from 0.
func (s *Stage) Index() int { return s.index }

// Params returns the stage's weights; the caller must not change them.
func (s *Stage) Params() []Param { return s.params }

func (s *Stage) first() bool { return s.index == 0 }

func (s *Stage) last() bool { return s.config.isLast(s.index) }

// Forward computes the stage on one micro-batch, fills t, and writes the wire to
// out, [B*T, WireWidth]. tokens are [B, T+1] and pass Config.CheckTokens; in is the wire of the stage before,
// nil in the first stage. In the last stage out is not used and t is ready for
// Backward only after Loss.
func (s *Stage) Forward(w []float32, tokens []int32, in, out []float32, t *Tape) {
	t.take(s.e, tokens, in)
	s.enter(w, t)
	for i := range s.blocks {
		s.forwardBlock(w, i, t, out)
	}
	if s.last() {
		return
	}
	y := t.blocks[len(t.blocks)-1].y
	switch s.config.Boundary {
	case None:
		s.e.Copy(out, y)
	case SSN:
		s.toSubspace(out, y, t.inputs)
	}
}

// Loss computes the last stage forward and returns the mean cross entropy over
// the micro-batch, in nats; t is ready for Backward.
func (s *Stage) Loss(w []float32, tokens []int32, in []float32, t *Tape) float64 {
	s.Forward(w, tokens, in, nil, t)
	return s.forwardHead(w, t)
}

// Recompute fills t again from the tokens and the wire that it holds, with other
// weights.
func (s *Stage) Recompute(w []float32, t *Tape) {
	s.Forward(w, t.tokens, t.in, s.scratch.discard, t)
	if s.last() {
		s.forwardHead(w, t)
	}
}

// Backward overwrites grad with the gradient of the loss of t's micro-batch by
// the weights, and din with that by the incoming wire. w are the weights of the
// forward that filled t. dout is the gradient by the outgoing wire, nil in the
// last stage; din is nil in the first.
func (s *Stage) Backward(w []float32, t *Tape, dout, grad, din []float32) {
	dx := s.scratch.dx
	switch {
	case s.last():
		s.backwardHead(w, t, dx, grad)
	case s.config.Boundary == None:
		s.e.Copy(dx, dout)
	case s.config.Boundary == SSN:
		s.e.MatMul(kernel.M(dx, s.rows, s.d), s.wire(dout), s.subspace().T())
	}
	for i := len(s.blocks) - 1; i >= 0; i-- {
		s.backwardBlock(w, i, t, dx, dout, grad, din)
	}
	s.leave(t, dx, grad, din)
}

// Logits computes the last stage forward without a loss: logits are [B*T, V].
// The last token of each row of tokens has no effect.
func (s *Stage) Logits(w []float32, tokens []int32, in, logits []float32) {
	if s.spare == nil {
		s.spare = s.NewTape()
	}
	t := s.spare
	s.Forward(w, tokens, in, nil, t)
	s.e.RMSNorm(t.n, t.blocks[len(t.blocks)-1].y, s.norm.vec(w), t.inv, s.rows, s.d)
	s.e.MatMul(kernel.M(logits, s.rows, s.config.Vocab), kernel.M(t.n, s.rows, s.d), s.head.mat(w).T())
}

// wire views a wire or its gradient.
func (s *Stage) wire(x []float32) kernel.Mat { return kernel.M(x, s.rows, s.k) }
