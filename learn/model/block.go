package model

import "github.com/iota-train/iota/learn/kernel"

// forwardBlock computes one block:
//
//	h = x + o_proj(attention(rms(x)))
//	n = rms(h);  u = silu(gate(n)) * up(n)
//	y = h + down(u)
//
// A block that receives from a bottleneck has s instead of x in the residual, in
// its first k channels; one that sends writes encode(silu(down(u))) + h[:k] to
// out, and no y.
func (s *Stage) forwardBlock(w []float32, i int, t *Tape, out []float32) {
	e, at, b := s.e, &s.blocks[i], &t.blocks[i]
	dense := func(x []float32) kernel.Mat { return kernel.M(x, s.rows, s.d) }

	e.RMSNorm(b.n1, b.x, at.norm1.vec(w), b.inv1, s.rows, s.d)
	e.MatMul(dense(b.q), dense(b.n1), at.q.mat(w).T())
	e.MatMul(kernel.M(b.k, s.rows, s.kv), dense(b.n1), at.k.mat(w).T())
	e.MatMul(kernel.M(b.v, s.rows, s.kv), dense(b.n1), at.v.mat(w).T())
	e.Rotate(b.q, s.rows, s.config.SeqLen, s.config.Heads, s.rope, s.scale, false)
	e.Rotate(b.k, s.rows, s.config.SeqLen, s.config.KVHeads, s.rope, 1, false)
	s.attention.forward(b)
	if at.receives {
		clear(b.h)
		takeChannels(b.h, s.d, t.in, s.k, s.rows)
	} else {
		s.e.Copy(b.h, b.x)
	}
	s.addToResidual(w, at.o, at.factored, b.h, b.mixed)

	e.RMSNorm(b.n2, b.h, at.norm2.vec(w), b.inv2, s.rows, s.d)
	e.MatMul(kernel.M(b.gate, s.rows, s.f), dense(b.n2), at.gate.mat(w).T())
	e.MatMul(kernel.M(b.up, s.rows, s.f), dense(b.n2), at.up.mat(w).T())
	e.SiLUMul(b.u, b.gate, b.up)
	if !at.sends {
		s.e.Copy(b.y, b.h)
		s.addToResidual(w, at.down, at.factored, b.y, b.u)
		return
	}
	e.MatMul(dense(b.deep), kernel.M(b.u, s.rows, s.f), at.down.mat(w).T())
	e.SiLU(b.active, b.deep)
	takeChannels(out, s.k, b.h, s.d, s.rows)
	e.MatMulAdd(s.wire(out), dense(b.active), at.encode.mat(w).T())
}

// addToResidual adds x W^T to y, d wide, or (x Z^T) U^T where W = U Z.
func (s *Stage) addToResidual(w []float32, at weight, factored bool, y, x []float32) {
	in := kernel.M(x, s.rows, at.cols)
	out := kernel.M(y, s.rows, s.d)
	if !factored {
		s.e.MatMulAdd(out, in, at.mat(w).T())
		return
	}
	low := kernel.M(s.scratch.low, s.rows, s.k)
	s.e.MatMul(low, in, at.mat(w).T())
	s.e.MatMulAdd(out, low, s.subspace().T())
}

// backwardBlock turns dx, the gradient by the block's output, into that by its
// input, in place, and writes the gradients of its weights. A sending block
// takes the gradient of the wire, dout, instead; a receiving one writes din.
func (s *Stage) backwardBlock(w []float32, i int, t *Tape, dx, dout, grad, din []float32) {
	at, b := &s.blocks[i], &t.blocks[i]
	if at.sends {
		s.backwardSend(w, at, b, dx, dout, grad)
	} else {
		s.backwardProjection(w, at.down, at.factored, s.scratch.du, dx, b.u, grad)
	}
	s.backwardGates(w, at, b, dx, grad)

	// dx is now the gradient by h.
	if at.receives {
		takeChannels(din, s.k, dx, s.d, s.rows)
	}
	s.backwardProjection(w, at.o, at.factored, s.scratch.dt, dx, b.mixed, grad)
	if at.receives {
		clear(dx) // no residual around the attention
	}
	s.backwardAttention(w, at, b, dx, grad)
	if at.receives {
		s.backwardReceive(w, at, t, b, dx, grad, din)
	}
}

// backwardProjection is the backward of addToResidual: it sets dx, the gradient
// by x, and the weight's, from dy. It uses low.
func (s *Stage) backwardProjection(w []float32, at weight, factored bool, dx, dy, x, grad []float32) {
	d := kernel.M(dy, s.rows, s.d)
	if factored {
		low := kernel.M(s.scratch.low, s.rows, s.k)
		s.e.MatMul(low, d, s.subspace())
		d = low
	}
	s.e.MatMul(at.mat(grad), d.T(), kernel.M(x, s.rows, at.cols))
	s.e.MatMul(kernel.M(dx, s.rows, at.cols), d, at.mat(w))
}

// backwardGates adds to dx what reaches h through the feed-forward part, given
// the gradient by u in scratch du.
func (s *Stage) backwardGates(w []float32, at *blockWeights, b *blockTape, dx, grad []float32) {
	e, x := s.e, &s.scratch
	e.SiLUMulBackward(x.dg, x.du, x.du, b.gate, b.up) // du becomes the gradient by up(n)
	s.linearBackward(w, at.gate, x.dn, x.dg, b.n2, grad)
	s.linearBackwardAdd(w, at.up, x.dn, x.du, b.n2, grad)
	dw := at.norm2.vec(grad)
	clear(dw)
	e.RMSNormBackward(dx, dw, x.dn, b.h, at.norm2.vec(w), b.inv2, s.rows, s.d)
}

// backwardAttention adds to dx what reaches x through the attention, given the
// gradient by mixed in scratch dt.
func (s *Stage) backwardAttention(w []float32, at *blockWeights, b *blockTape, dx, grad []float32) {
	e, x := s.e, &s.scratch
	s.attention.backward(b, x.dt, x.dq, x.dk, x.dv)
	e.Rotate(x.dq, s.rows, s.config.SeqLen, s.config.Heads, s.rope, s.scale, true)
	e.Rotate(x.dk, s.rows, s.config.SeqLen, s.config.KVHeads, s.rope, 1, true)
	s.linearBackward(w, at.q, x.dn, x.dq, b.n1, grad)
	s.linearBackwardAdd(w, at.k, x.dn, x.dk, b.n1, grad)
	s.linearBackwardAdd(w, at.v, x.dn, x.dv, b.n1, grad)
	dw := at.norm1.vec(grad)
	clear(dw)
	e.RMSNormBackward(dx, dw, x.dn, b.x, at.norm1.vec(w), b.inv1, s.rows, s.d)
}

// linearBackward is the backward of y = x W^T: the gradient by x to dx, that by
// W to its place in grad.
func (s *Stage) linearBackward(w []float32, at weight, dx, dy, x, grad []float32) {
	d := kernel.M(dy, s.rows, at.rows)
	s.e.MatMul(at.mat(grad), d.T(), kernel.M(x, s.rows, at.cols))
	s.e.MatMul(kernel.M(dx, s.rows, at.cols), d, at.mat(w))
}

// linearBackwardAdd is linearBackward, but adds the gradient by x to dx.
func (s *Stage) linearBackwardAdd(w []float32, at weight, dx, dy, x, grad []float32) {
	d := kernel.M(dy, s.rows, at.rows)
	s.e.MatMul(at.mat(grad), d.T(), kernel.M(x, s.rows, at.cols))
	s.e.MatMulAdd(kernel.M(dx, s.rows, at.cols), d, at.mat(w))
}

// takeChannels copies the leading channels of rows of x to those of y.
func takeChannels(y []float32, yWidth int, x []float32, xWidth, rows int) {
	n := min(yWidth, xWidth)
	for r := range rows {
		copy(y[r*yWidth:][:n], x[r*xWidth:][:n])
	}
}
