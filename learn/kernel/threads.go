package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// team is an engine's helpers and the job that they share with the caller. A job
// is a number of items, which whoever is free takes in order: a slow thread takes
// fewer, and one that comes too late none. Nobody waits for a helper that has not
// begun, so several engines can share the processors.
type team struct {
	run  func(e *Engine, worker, item int)
	n    int64
	next atomic.Int64 // the first item that nobody took

	// state is the job's number, whether helpers may still join, and how many
	// of them are at work.
	state   atomic.Uint64
	stop    atomic.Bool
	helpers []*helper
	ended   sync.WaitGroup
}

// helper is one goroutine, worker 1 and up; the caller is worker 0.
type helper struct {
	asleep atomic.Bool
	wake   chan struct{}
}

// Parts of a team's state.
const (
	jobOpen   = 1 << 31
	jobNumber = 1 << 32
	atWork    = jobOpen - 1
)

// spins is how often a helper looks for the next job before it sleeps, some tens
// of microseconds: most of a stage's pauses are shorter.
const spins = 300

// fork calls run once for each item below n, on at most e.threads threads, and
// returns when all are done.
func (e *Engine) fork(n int, run func(e *Engine, worker, item int)) {
	e.start()
	if e.threads == 1 || n <= 1 {
		for i := range n {
			run(e, 0, i)
		}
		return
	}
	t := &e.team
	t.run, t.n = run, int64(n)
	t.next.Store(0)
	t.state.Store(t.state.Load()&^(jobNumber-1) + jobNumber | jobOpen)
	for _, h := range t.helpers[:min(len(t.helpers), n-1)] {
		if h.asleep.CompareAndSwap(true, false) {
			h.wake <- struct{}{}
		}
	}
	t.work(e, 0)
	t.state.And(^uint64(jobOpen))
	for t.state.Load()&atWork > 0 {
		runtime.Gosched()
	}
	t.run = nil
}

// work takes items until none is left.
func (t *team) work(e *Engine, worker int) {
	for i := t.next.Add(1) - 1; i < t.n; i = t.next.Add(1) - 1 {
		t.run(e, worker, int(i))
	}
}

// join takes part in a job that is open and newer than last, and returns the
// number of the job.
func (t *team) join(e *Engine, worker int, last uint64) uint64 {
	s := t.state.Load()
	if s/jobNumber == last || s&jobOpen == 0 || !t.state.CompareAndSwap(s, s+1) {
		return last
	}
	t.work(e, worker)
	t.state.Add(^uint64(0))
	return s / jobNumber
}

// start launches the helpers that are missing, and a one-thread engine for each
// worker.
func (e *Engine) start() {
	for len(e.subs) < e.threads && e.threads > 1 {
		sub := NewFor(e.numerics, 1)
		sub.pack.ready(1)
		e.subs = append(e.subs, sub)
	}
	t := &e.team
	for len(t.helpers) < e.threads-1 {
		h := &helper{wake: make(chan struct{}, 1)}
		t.helpers = append(t.helpers, h)
		worker := len(t.helpers)
		t.ended.Go(func() { t.help(e, h, worker) })
	}
}

// help is the life of a helper: it looks for jobs, and sleeps when there was none
// for a while.
func (t *team) help(e *Engine, h *helper, worker int) {
	last := uint64(0)
	for idle := 0; !t.stop.Load(); idle++ {
		if job := t.join(e, worker, last); job != last {
			last, idle = job, 0
		}
		if idle < spins {
			runtime.Gosched()
			continue
		}
		h.asleep.Store(true)
		// A new job or the end may have come before this helper was seen asleep.
		s := t.state.Load()
		if (s&jobOpen > 0 && s/jobNumber != last || t.stop.Load()) && h.asleep.CompareAndSwap(true, false) {
			continue
		}
		<-h.wake
		idle = 0
	}
}

// Close ends the engine's helpers, which sleep while idle. The engine may be used
// again, which starts them anew.
func (e *Engine) Close() {
	t := &e.team
	t.stop.Store(true)
	for _, h := range t.helpers {
		if h.asleep.CompareAndSwap(true, false) {
			h.wake <- struct{}{}
		}
	}
	t.ended.Wait()
	t.helpers = nil
	t.stop.Store(false)
}
