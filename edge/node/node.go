// Package node drives the roles for real: it owns the clock, the connections, the disk and the goroutines that they do
// without.
//
// A Hub drives the orchestrator. One goroutine owns the core; events reach it over a bounded queue, are journalled in
// groups, and only when a group is durable do its orders leave. A Miner drives one worker: it dials, registers, fetches
// what an order needs, computes under a Gate that all miners of the process share, stores the outputs and sends the
// signed result. Verify replays a journal from its beginning.
package node

import (
	"context"
	"errors"
	"time"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
)

// Journal is what a Hub writes and reads: journal.File, journal.Postgres or journal.Memory.
type Journal interface {
	WriteGenesis(b []byte) error
	// Genesis returns nil when none was written.
	Genesis() ([]byte, error)
	// Append returns when the whole batch is durable.
	Append(batch []journal.Record) error
	LastSeq() uint64
	Read(from uint64, fn func(journal.Record) error) error
	WriteSnapshot(s journal.Snapshot) error
	LatestSnapshot() (journal.Snapshot, bool, error)
	Snapshots(fn func(journal.Snapshot) error) error
	Archive(before uint64) error
}

// HubBlobs is the store as the orchestrator's side sees it.
type HubBlobs interface {
	// Size returns the bytes of a stored blob.
	Size(ctx context.Context, h store.Hash) (uint64, error)
	// Verify reads a blob and compares its size and hash.
	Verify(ctx context.Context, h store.Hash, size uint64) error
	Delete(h store.Hash) error
	// DeleteBefore removes a blob that was last put before that time and that no upload owns.
	DeleteBefore(h store.Hash, before time.Time) (bool, error)
	Each(ctx context.Context, fn func(store.Info) error) error
	// LastRefusal returns when a blob last did not fit, and the error that its sender got.
	LastRefusal() (time.Time, error)
}

// Blobs is the store as a miner sees it, perhaps behind a link. What Get returns has the hash and the size that were
// asked for. The store may keep the bytes that it is given and share those that it gives: nobody writes to either.
type Blobs interface {
	Put(ctx context.Context, b message.Blob) (store.Hash, error)
	// PutDurable is Put, but the blob survives a power cut.
	PutDurable(ctx context.Context, b message.Blob) (store.Hash, error)
	Get(ctx context.Context, h store.Hash, size uint64) ([]byte, error)
	Has(ctx context.Context, h store.Hash) (bool, error)
}

// Sentinels that a caller branches on.
var (
	// ErrDiverged says that a journal's events no longer lead to what it recorded.
	ErrDiverged = errors.New("journal and replay differ")
	// ErrRefused says that the orchestrator does not take the miner; the text says why and what to do.
	ErrRefused = errors.New("refused by the orchestrator")
)

// Times of the drivers.
const (
	tickEvery      = 100 * time.Millisecond // longest time without an event while a run goes on
	heartbeatEvery = 5 * time.Second
	sendPatience   = 5 * time.Second // how long a connection may not take a message
)

// Bounds of the queues.
const (
	maxEvents = 1024 // that wait for the core
	maxBatch  = 256  // events of one commit
	maxOrders = 1024 // that wait for one miner, on either side
	maxOutbox = 1024 // results that may have to be sent again

	maxRegister = 1 << 10 // bytes of a registration, which anybody may send and which is journalled
	peerRate    = 2000    // messages per second of one key; each KiB counts as one more
	peerBurst   = 4096    // of them at once
	maxPaces    = 4096    // keys of which that is known
)

// Gate bounds how many workers of a process compute at once.
type Gate chan struct{}

// NewGate returns a gate with n permits, at least one.
func NewGate(n int) Gate { return make(Gate, max(1, n)) }

// enter waits for a permit.
func (g Gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g Gate) leave() { <-g }
