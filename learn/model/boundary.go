package model

import "github.com/iota-train/iota/learn/kernel"

// enter sets the input of the first block: the embedding of the tokens in the
// first stage, else what the wire stands for.
func (s *Stage) enter(w []float32, t *Tape) {
	x := t.blocks[0].x
	switch {
	case s.first():
		s.embedding(w, t, x)
	case s.config.Boundary == Bottleneck:
		b := &t.blocks[0]
		s.e.MatMul(kernel.M(b.decoded, s.rows, s.d), s.wire(t.in), s.blocks[0].decode.mat(w).T())
		s.e.ReLU(x, b.decoded)
	case s.config.Boundary == SSN:
		s.fromSubspace(x, t.in, t.inputs)
	}
}

// embedding gathers one row per token; with SSN it is U e[token] + table[token].
func (s *Stage) embedding(w []float32, t *Tape, x []float32) {
	e, to, width := s.embed.vec(w), x, s.embed.cols
	if s.config.Boundary == SSN {
		to = s.scratch.low
	}
	for r, token := range t.inputs {
		copy(to[r*width:(r+1)*width], e[int(token)*width:])
	}
	if s.config.Boundary == SSN {
		s.fromSubspace(x, to, t.inputs)
	}
}

// leave hands the gradient by the first block's input, dx, on: to the embedding
// or to the wire. A bottleneck's was handled with its block.
func (s *Stage) leave(t *Tape, dx, grad, din []float32) {
	d := kernel.M(dx, s.rows, s.d)
	switch {
	case s.first():
		if s.config.Boundary == SSN {
			s.e.MatMul(s.wire(s.scratch.low), d, s.subspace())
			dx = s.scratch.low
		}
		s.embeddingBackward(t, dx, grad)
	case s.config.Boundary == None:
		s.e.Copy(din, dx)
	case s.config.Boundary == SSN:
		s.e.MatMul(s.wire(din), d, s.subspace())
	}
}

// embeddingBackward adds every position's gradient to its token's row, in
// increasing position.
func (s *Stage) embeddingBackward(t *Tape, dx, grad []float32) {
	de, width := s.embed.vec(grad), s.embed.cols
	clear(de)
	for r, token := range t.inputs {
		kernel.Add(de[int(token)*width:][:width], dx[r*width:][:width])
	}
}

// backwardSend sets du in scratch and starts dx, the gradient by h, from the
// gradient of the wire s = encode(silu(down(u))) + h[:k].
func (s *Stage) backwardSend(w []float32, at *blockWeights, b *blockTape, dx, dout, grad []float32) {
	x := &s.scratch
	s.linearBackward(w, at.encode, x.dn, dout, b.active, grad)
	s.e.SiLUBackward(x.dn, x.dn, b.deep)
	s.linearBackward(w, at.down, x.du, x.dn, b.u, grad)
	clear(dx)
	takeChannels(dx, s.d, dout, s.k, s.rows)
}

// backwardReceive adds to din what reaches the wire through x = relu(decode(s)).
func (s *Stage) backwardReceive(w []float32, at *blockWeights, t *Tape, b *blockTape, dx, grad, din []float32) {
	s.e.ReLUBackward(dx, dx, b.decoded)
	s.linearBackwardAdd(w, at.decode, din, dx, t.in, grad)
}

// subspace views U, [d, k].
func (s *Stage) subspace() kernel.Mat { return kernel.M(s.u, s.d, s.k) }

// fromSubspace sets x = U c + table[token]; c is [rows, k].
func (s *Stage) fromSubspace(x, c []float32, tokens []int32) {
	for r, token := range tokens {
		copy(x[r*s.d:][:s.d], s.table[int(token)*s.d:])
	}
	s.e.MatMulAdd(kernel.M(x, s.rows, s.d), s.wire(c), s.subspace().T())
}

// toSubspace sets c = U^T (x - table[token]); it changes x.
func (s *Stage) toSubspace(c, x []float32, tokens []int32) {
	for r, token := range tokens {
		kernel.Sub(x[r*s.d:][:s.d], s.table[int(token)*s.d:][:s.d])
	}
	s.e.MatMul(s.wire(c), kernel.M(x, s.rows, s.d), s.subspace())
}
