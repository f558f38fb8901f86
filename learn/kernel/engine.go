package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Engine is a number of threads and the scratch memory they need. One goroutine
// at a time may use it. Threads split outputs, never a sum, so their number
// changes no result. An engine of one thread runs on its caller's goroutine.
type Engine struct {
	threads  int
	numerics Numerics
	args     rowArgs   // arguments of the running element-wise call
	mul      product   // arguments of the running MatMul
	items    items     // arguments of the running For
	pack     scratch   // packed operands
	subs     []*Engine // one-thread engines, one per thread, for For

	wake []chan part
	done sync.WaitGroup
}

// part is one thread's share of a call: index of count.
type part struct {
	run          func(e *Engine, index, count int)
	index, count int
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

// Close ends the engine's helper goroutines, which sleep while idle. The engine
// may be used again, which starts them anew.
func (e *Engine) Close() {
	for _, wake := range e.wake {
		close(wake)
	}
	e.done.Wait()
	e.wake = nil
}

// start launches the helpers: one goroutine per thread beyond the caller's.
func (e *Engine) start() {
	for len(e.wake) < e.threads-1 {
		wake := make(chan part)
		e.wake = append(e.wake, wake)
		go func() {
			for p := range wake {
				p.run(e, p.index, p.count)
				e.done.Done()
			}
		}()
	}
}

// fork calls run once for each index below count, at most one per thread, and
// returns when all are done. The caller takes the last one.
func (e *Engine) fork(count int, run func(e *Engine, index, count int)) {
	if count <= 1 {
		run(e, 0, 1)
		return
	}
	e.start()
	e.done.Add(count - 1)
	for i := 0; i < count-1; i++ {
		e.wake[i] <- part{run, i, count}
	}
	run(e, count-1, count)
	e.done.Wait()
}

// share returns the index-th of count near-equal slices of [0, n), cut at
// multiples of grain.
func share(n, grain, index, count int) (from, to int) {
	groups := (n + grain - 1) / grain
	from = min(groups*index/count*grain, n)
	to = min(groups*(index+1)/count*grain, n)
	return from, to
}

// items are the arguments of For.
type items struct {
	n    int
	f    func(e *Engine, i int)
	next atomic.Int64
}

// For calls f(sub, i) once for each i in [0, n), spread over the threads; sub is
// a one-thread engine of the calling thread, and f must use no other. Calls may
// run in any order and at once, so they must not write the same elements.
func (e *Engine) For(n int, f func(sub *Engine, i int)) {
	e.addSubs()
	e.items.n, e.items.f = n, f
	e.items.next.Store(0)
	e.fork(min(e.threads, n), (*Engine).takeItems)
	e.items.f = nil
}

// addSubs makes the one-thread engines.
func (e *Engine) addSubs() {
	for len(e.subs) < e.threads {
		e.subs = append(e.subs, NewFor(e.numerics, 1))
	}
}

// takeItems calls For's function for the next free item until none is left.
func (e *Engine) takeItems(index, _ int) {
	for {
		i := int(e.items.next.Add(1)) - 1
		if i >= e.items.n {
			return
		}
		e.items.f(e.subs[index], i)
	}
}

// rowArgs are the arguments of a call that splits its rows, or a long vector,
// over the threads. Each function uses the fields it needs.
type rowArgs struct {
	run                 func(a *rowArgs, from, to int)
	n, grain            int
	y, x, w, z, p, q    []float32
	ints                []int32
	cols, stride, first int
	heads               int
	scale               float32
	rope                *Rope
	inverse             bool
	adamW               [10]float32
}

// minWork is the number of elements below which a second thread costs more than
// it brings.
const minWork = 16384

// rows calls a.run on slices of [0, a.n) cut at multiples of a.grain; every
// index stands for width elements of work.
func (e *Engine) rows(a rowArgs, width int) {
	threads := min(e.threads, max(1, a.n*width/minWork))
	if threads == 1 {
		e.args = a
		e.args.run(&e.args, 0, a.n)
		e.args = rowArgs{}
		return
	}
	e.args = a
	e.fork(threads, func(e *Engine, index, count int) {
		from, to := share(e.args.n, e.args.grain, index, count)
		e.args.run(&e.args, from, to)
	})
	e.args = rowArgs{}
}
