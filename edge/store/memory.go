package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// Memory is a store of bounded capacity in this process. It copies nothing: whoever puts a blob, and whoever gets one,
// shares it with the store, and from then on nobody may write to it. All methods may be called by many goroutines.
type Memory struct {
	refusal
	capacity uint64

	mu    sync.RWMutex
	blobs map[Hash]held
	used  uint64
}

// held is a blob and when it was last put.
type held struct {
	bytes []byte
	put   time.Time
}

// NewMemory returns an empty store that holds at most capacity bytes of blobs.
func NewMemory(capacity uint64) *Memory {
	return &Memory{capacity: capacity, blobs: make(map[Hash]held)}
}

// Put stores b under its hash. A blob that is already there costs nothing; one that does not fit is refused with ErrFull.
func (m *Memory) Put(ctx context.Context, b message.Blob) (Hash, error) {
	if err := ctx.Err(); err != nil {
		return Hash{}, err
	}
	h, size := Hash(b.Hash()), uint64(len(b.Bytes()))
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.blobs[h]; ok {
		m.blobs[h] = held{old.bytes, time.Now()}
		return h, nil
	}
	if size > m.capacity-m.used {
		return Hash{}, m.remember(full(h, size, m.used, m.capacity))
	}
	m.blobs[h] = held{b.Bytes(), time.Now()}
	m.used += size
	return h, nil
}

// PutDurable is Put: memory outlives nothing.
func (m *Memory) PutDurable(ctx context.Context, b message.Blob) (Hash, error) { return m.Put(ctx, b) }

// Get returns the blob. A blob knows its hash, and memory that nobody writes to does not rot: only the size is compared.
func (m *Memory) Get(ctx context.Context, h Hash, size uint64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	b, ok := m.blobs[h]
	m.mu.RUnlock()
	if !ok {
		return nil, fmt.Errorf("blob %s: %w", h.Short(), ErrMissing)
	}
	if err := verifySize(h, size, b.bytes); err != nil {
		return nil, err
	}
	return b.bytes, nil
}

// Verify is Get without the bytes.
func (m *Memory) Verify(ctx context.Context, h Hash, size uint64) error {
	_, err := m.Get(ctx, h, size)
	return err
}

// Has reports whether a blob of that hash is stored.
func (m *Memory) Has(ctx context.Context, h Hash) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, ok := m.blobs[h]
	return ok, nil
}

// Size returns the bytes of the blob, or ErrMissing.
func (m *Memory) Size(ctx context.Context, h Hash) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	b, ok := m.blobs[h]
	if !ok {
		return 0, fmt.Errorf("blob %s: %w", h.Short(), ErrMissing)
	}
	return uint64(len(b.bytes)), nil
}

// Delete forgets the blob. Deleting one that is not there succeeds.
func (m *Memory) Delete(h Hash) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(h)
	return nil
}

// DeleteBefore forgets the blob if it was last put before that time, and reports whether it did.
func (m *Memory) DeleteBefore(h Hash, before time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b, ok := m.blobs[h]; !ok || !b.put.Before(before) {
		return false, nil
	}
	m.forget(h)
	return true, nil
}

func (m *Memory) forget(h Hash) {
	m.used -= uint64(len(m.blobs[h].bytes))
	delete(m.blobs, h)
}

// Usage returns the bytes of all blobs.
func (m *Memory) Usage() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.used
}

// Each calls fn with every blob, in order of hash, and stops at its first error. fn may call the store.
func (m *Memory) Each(ctx context.Context, fn func(Info) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.RLock()
	all := make([]Info, 0, len(m.blobs))
	for h, b := range m.blobs {
		all = append(all, Info{h, uint64(len(b.bytes)), b.put})
	}
	m.mu.RUnlock()
	return each(all, fn)
}
