package model

import "github.com/iota-train/iota/learn/kernel"

// vocabChunk is the number of tokens whose logits are in memory at a time; it is
// part of the numerics.
const vocabChunk = 4096

// forwardHead computes the final norm, the logits chunk by chunk, and the loss.
func (s *Stage) forwardHead(w []float32, t *Tape) float64 {
	s.e.RMSNorm(t.n, t.blocks[len(t.blocks)-1].y, s.norm.vec(w), t.inv, s.rows, s.d)
	t.loss.Start()
	for first := 0; first < s.config.Vocab; first += vocabChunk {
		logits := s.chunk(w, t, first)
		s.e.CrossEntropyChunk(t.loss, logits.Data, s.rows, logits.Cols, logits.Stride, first, t.targets)
	}
	return t.loss.Loss(s.rows)
}

// chunk computes the logits of the tokens from first on.
func (s *Stage) chunk(w []float32, t *Tape, first int) kernel.Mat {
	n := min(vocabChunk, s.config.Vocab-first)
	logits := kernel.M(s.scratch.logits, s.rows, n)
	s.e.MatMul(logits, kernel.M(t.n, s.rows, s.d), s.headRows(w, first, n).T())
	return logits
}

// headRows views the rows [first, first+n) of lm_head in w.
func (s *Stage) headRows(w []float32, first, n int) kernel.Mat {
	return kernel.M(s.head.vec(w)[first*s.d:(first+n)*s.d], n, s.d)
}

// backwardHead sets dx, the gradient of the mean loss by the last block's output,
// and the gradients of the head and the final norm.
func (s *Stage) backwardHead(w []float32, t *Tape, dx, grad []float32) {
	x := &s.scratch
	clear(x.dn)
	n, scale := kernel.M(t.n, s.rows, s.d), 1/float32(s.rows)
	for first := 0; first < s.config.Vocab; first += vocabChunk {
		logits := s.chunk(w, t, first)
		s.e.CrossEntropyGrad(t.loss, logits.Data, s.rows, logits.Cols, logits.Stride, first, t.targets, scale)
		s.e.MatMul(s.headRows(grad, first, logits.Cols), logits.T(), n)
		s.e.MatMulAdd(kernel.M(x.dn, s.rows, s.d), logits, s.headRows(w, first, logits.Cols))
	}
	clear(dx)
	dw := s.norm.vec(grad)
	clear(dw)
	s.e.RMSNormBackward(dx, dw, x.dn, t.blocks[len(t.blocks)-1].y, s.norm.vec(w), t.inv, s.rows, s.d)
}
