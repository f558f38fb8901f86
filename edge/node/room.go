package node

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/role/orchestrator"
)

// retryFull is how often is tried what did not fit, on a disk or in a store; tests shorten it. After a refusal a store
// counts as full for fullFor times as long: who was refused asks again sooner.
var retryFull = time.Second

const fullFor = 5

// isFull reports whether an error says that there is no room, rather than that something is broken.
func isFull(err error) bool {
	return errors.Is(err, store.ErrFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// whileFull repeats what fails for lack of room until it does not, or ctx ends. It tells when it begins to wait, and,
// with nil, that it is over.
func whileFull(ctx context.Context, tell func(error), do func() error) error {
	waited := false
	for {
		err := do()
		if !isFull(err) {
			if waited {
				tell(nil)
			}
			return err
		}
		if !waited {
			tell(err)
			waited = true
		}
		if e := wait(ctx, retryFull); e != nil {
			return err
		}
	}
}

// full tells the operator that the run waits for room, or no longer does.
func (h *Hub) full(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil && h.lacking == nil:
		h.Log.Error("no room: the run stands still until there is; free some space or raise the limit", "err", err)
	case err == nil && h.lacking != nil:
		h.Log.Info("there is room again")
	}
	h.lacking = err
}

// blocked reports whether the store has just refused a blob for lack of room. Until it takes blobs again no event enters
// the core and run time stands still: leases would only run out, and merges fail, of which nobody is guilty.
func (h *Hub) blocked() bool {
	at, err := h.Blobs.LastRefusal()
	if err == nil || time.Since(at) > fullFor*retryFull {
		if h.waiting {
			h.waiting = false
			h.standstill += time.Since(h.waited)
			h.full(nil)
		}
		return false
	}
	if !h.waiting {
		h.waiting, h.waited = true, time.Now()
		h.full(err)
	}
	return true
}

// patiently does what the run cannot go on without, and waits for room while it does not fit. Run time stands still
// meanwhile. Stop ends the wait with the error: what was durable stays so.
func (h *Hub) patiently(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.hurry, cancel)()
	return whileFull(ctx, func(err error) {
		if err == nil {
			h.standstill += time.Since(h.waited)
		}
		h.waited = time.Now()
		h.full(err)
	}, do)
}

// longestGap between two events, of which one comes every tickEvery: a longer one is a time in which this process stood
// still, stopped or waiting for its disk.
const longestGap = 2 * time.Second

// runTime is the time that the core is told. It stands still while the process does: what came meanwhile has not been
// looked at, and is not late.
func (h *Hub) runTime() time.Duration {
	if h.waiting {
		return h.machine.now // what it waits is counted when that ends
	}
	now := h.base + time.Since(h.started) - h.standstill
	if gap := now - h.machine.now; gap > longestGap {
		h.standstill += gap
		now -= gap
	}
	return now
}

// shortage adds to a view that the run waits for room. The lock is held.
func (h *Hub) shortage(v *orchestrator.View) {
	if h.lacking == nil {
		return
	}
	text := "no room, the run stands still: free some space or raise the limit: " + h.lacking.Error()
	v.Reason, v.Alerts = text, append(v.Alerts, orchestrator.Alert{At: v.Now, Text: text})
}

// wait waits, until ctx ends at the longest.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
