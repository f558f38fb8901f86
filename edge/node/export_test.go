package node

import (
	"context"
	"time"

	"github.com/iota-train/iota/edge/store"
)

func init() { retryFull = 20 * time.Millisecond }

// Sweep is what the hub does now and then.
func (h *Hub) Sweep(ctx context.Context) {
	h.deleteDoomed()
	h.sweep(ctx)
}

// Holds reports whether the core does.
func (h *Hub) Holds(hash store.Hash) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machine.core.Holds(hash[:])
}
