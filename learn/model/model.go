// Package model computes one pipeline stage of a Llama-style language model:
// forward, loss and hand-written backward of one micro-batch, and what crosses
// the boundary to the next stage.
//
// A Config describes the whole model and its cuts. The weights of a stage are
// one flat []float32, laid out by Config.Params in the order of their names; a
// Stage never keeps them, so a caller may hold several versions. What a forward
// saves for its backward lives in a Tape: many tapes may share a stage, one
// goroutine at a time may use it.
//
//	t := stage.NewTape()
//	stage.Forward(w, tokens, in, out, t)   // all stages but the last
//	loss := stage.Loss(w, tokens, in, t)   // the last stage
//	stage.Backward(w, t, dout, grad, din)
//
// Policy `stash` calls Backward with the weights of the forward. Policy
// `recompute` calls Recompute with the current weights first.
//
// # Numerics
//
// Every operation is one of package kernel's, or a copy, gather or addition in
// a stated order, so results are equal on all machines and at any number of
// threads. A sum of matrix products, and a residual plus a product, is one chain
// per element, in the order in which docs/numerics.md lists the terms. Attention
// works on tiles of 64 queries against all keys up to the end of the tile, with a
// softmax over whole rows; queries are scaled by float32(1/sqrt(head width))
// after their rotation. The backward pass computes the scores again and finds the
// probabilities from the logarithm of their row's sum; within one key/value head the terms of dk and dv are added by
// query head in increasing order and, within that, by tile from the last to the
// first. The loss takes the vocabulary in chunks of 4096 and computes each chunk's
// logits again in the backward pass.
package model
