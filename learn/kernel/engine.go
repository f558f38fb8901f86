package kernel

import (
	"runtime"
	"sync/atomic"
)

// Engine is a number of threads and the scratch memory they need. One goroutine
// at a time may use it. Threads split outputs, never a sum, so their number
// changes no result. An engine of one thread runs on its caller's goroutine.
type Engine struct {
	threads  int
	numerics Numerics
	args     rowArgs                  // arguments of the running element-wise call
	mul      running                  // arguments of the running product
	item     func(sub *Engine, i int) // argument of the running For
	bad      atomic.Bool              // result of the running AllFinite
	pack     scratch                  // packed operands
	subs     []*Engine                // one-thread engines, one per worker
	team     team
}

// New returns an engine of F32 with the given number of threads; 0 or less means
// one per processor that Go may use. Close it when threads is not 1.
func New(threads int) *Engine { return NewFor(F32, threads) }

// NewFor is New for the given numerics.
func NewFor(numerics Numerics, threads int) *Engine {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	return &Engine{threads: threads, numerics: numerics}
}

// Numerics returns the definition that the engine computes.
func (e *Engine) Numerics() Numerics { return e.numerics }

// Threads returns the number of threads.
func (e *Engine) Threads() int { return e.threads }

// piece returns the index-th of count near-equal slices of [0, n), cut at
// multiples of grain.
func piece(n, grain, index, count int) (from, to int) {
	groups := (n + grain - 1) / grain
	from = min(groups*index/count*grain, n)
	to = min(groups*(index+1)/count*grain, n)
	return from, to
}

// For calls f(sub, i) once for each i in [0, n), spread over the threads; sub is
// a one-thread engine of the calling thread, and f must use no other. Calls may
// run in any order and at once, so they must not write the same elements. After a
// panic in f the engine may not be used again.
func (e *Engine) For(n int, f func(sub *Engine, i int)) {
	if e.threads == 1 {
		for i := range n {
			f(e, i)
		}
		return
	}
	e.item = f
	e.fork(n, func(e *Engine, worker, i int) { e.item(e.subs[worker], i) })
	e.item = nil
}

// rowArgs are the arguments of a call that splits its rows, or a long vector,
// over the threads. Each function uses the fields it needs.
type rowArgs struct {
	run                 func(a *rowArgs, from, to int)
	n, grain, pieces    int
	y, x, w, z, p, q    []float32
	ints                []int32
	cols, stride, first int
	rows, heads, T      int
	scale               float32
	rope                *Rope
	inverse             bool
	adamW               [10]float32
	bad                 *atomic.Bool
}

// minWork is the number of elements that is worth a thread's while.
const minWork = 8192

// rows calls a.run on slices of [0, a.n) cut at multiples of a.grain; every
// index stands for width elements of work.
func (e *Engine) rows(a rowArgs, width int) {
	const perThread = 16 // slices: the last one to end keeps the others waiting
	e.args = a
	if pieces := min(e.threads*perThread, a.n*width/minWork); e.threads > 1 && pieces > 1 {
		e.args.pieces = pieces
		e.fork(pieces, func(e *Engine, _, i int) {
			from, to := piece(e.args.n, e.args.grain, i, e.args.pieces)
			e.args.run(&e.args, from, to)
		})
	} else {
		e.args.run(&e.args, 0, a.n)
	}
	e.args = rowArgs{}
}
