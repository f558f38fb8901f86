package node

import (
	"context"
	"errors"
	"time"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
)

// Times of the sweep.
const (
	sweepEvery   = 5 * time.Minute
	defaultGrace = 15 * time.Minute // from the upload of a blob to the receipt that names it
)

// doom marks the blobs that nothing needs any longer: from now on no receipt may name them. The events that say so are
// durable. The lock is held.
func (h *Hub) doom() {
	for hash := range h.machine.release {
		if !h.offers[hash] {
			h.doomed[hash] = true
		}
	}
	clear(h.machine.release)
	if len(h.doomed) > 0 {
		token(h.sweeping)
	}
}

// keepHouse deletes what is doomed, and what nothing names, until ctx ends. What is doomed by then is deleted too.
func (h *Hub) keepHouse(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	h.sweep(ctx)
	for {
		h.deleteDoomed()
		select {
		case <-h.sweeping:
		case <-ticker.C:
			h.sweep(ctx)
		case <-ctx.Done():
			h.deleteDoomed()
			return
		}
	}
}

// deleteDoomed removes the doomed blobs. One that cannot be removed is left to the sweep.
func (h *Hub) deleteDoomed() {
	h.mu.Lock()
	list := make([]store.Hash, 0, len(h.doomed))
	for hash := range h.doomed {
		list = append(list, hash)
	}
	h.mu.Unlock()
	for _, hash := range list {
		if err := h.Blobs.Delete(hash); err != nil {
			h.Log.Warn("blob stays", "err", err)
		}
		h.mu.Lock()
		delete(h.doomed, hash)
		h.mu.Unlock()
	}
}

// sweep removes the blobs that were put a while ago and that nothing names: uploads that nobody claimed, and what a crash
// left behind. A blob that the run holds is never removed: whether it does is asked under the lock that admits receipts.
func (h *Hub) sweep(ctx context.Context) {
	before, n, bytes := time.Now().Add(-h.Grace), 0, uint64(0)
	err := h.Blobs.Each(ctx, func(i store.Info) error {
		if !i.Put.Before(before) || !h.condemn(i.Hash) {
			return ctx.Err()
		}
		gone, err := h.Blobs.DeleteBefore(i.Hash, before)
		if err != nil {
			h.Log.Warn("blob stays", "err", err)
		} else if gone {
			n, bytes = n+1, bytes+i.Size
		}
		h.mu.Lock()
		delete(h.doomed, i.Hash)
		h.mu.Unlock()
		return ctx.Err()
	})
	if err != nil && ctx.Err() == nil {
		h.Log.Warn("blobs that nothing names stay", "err", err)
	}
	if n > 0 {
		h.Log.Info("removed blobs that nothing names", "blobs", n, "bytes", bytes)
	}
}

// condemn dooms a blob if nothing names it, and reports whether it did.
func (h *Hub) condemn(hash store.Hash) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.doomed[hash] || h.offers[hash] || h.machine.core.Holds(hash[:]) {
		return false
	}
	h.doomed[hash] = true
	return true
}

// checkContent returns an error unless the checkpoint that a receipt claims has its content: a pointer is published to no
// other, and a store that miners write to by themselves has not looked. What is there under its name is removed, so that
// an honest miner can put it. Whoever fetches any other blob compares it, and says when it is not what was claimed.
func (h *Hub) checkContent(ctx context.Context, r *message.Receipt) error {
	if r.GetFault() != message.Fault_FAULT_NONE || r.GetTask().GetKind() != message.TaskKind_UPLOAD {
		return nil
	}
	for _, ref := range r.GetOutputs() {
		hash, _ := hashOf(ref)
		err := h.Blobs.Verify(ctx, hash, ref.GetSize())
		if errors.Is(err, store.ErrCorrupt) { // a second look, lest a bad line costs a good checkpoint
			err = h.Blobs.Verify(ctx, hash, ref.GetSize())
		}
		if errors.Is(err, store.ErrCorrupt) {
			err = errors.Join(err, h.Blobs.Delete(hash))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
