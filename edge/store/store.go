// Package store keeps blobs under the hash of their content. It knows bytes, hashes and sizes, and nothing of what the
// blobs mean. Memory, Dir and S3 have the same methods; a reader names both the hash and the size, and gets exactly those
// bytes or an error. Presigned is the side of a bucket for those who have no credentials.
package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zeebo/blake3"
)

// Hash is the BLAKE3 hash of a blob's bytes, and its name.
type Hash [32]byte

// Sum returns the hash of b.
func Sum(b []byte) Hash { return blake3.Sum256(b) }

// String returns the hash as 64 lower-case hex digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Short returns the first 12 hex digits, for error lines.
func (h Hash) Short() string { return hex.EncodeToString(h[:6]) }

// ParseHash is the inverse of String. It accepts 64 lower-case hex digits and nothing else.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if len(s) != 2*len(h) {
		return h, fmt.Errorf("hash %q: want %d hex digits", s, 2*len(h))
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil || h.String() != s {
		return Hash{}, fmt.Errorf("hash %q: not lower-case hex", s)
	}
	return h, nil
}

// What a store's caller branches on: fetch elsewhere, blame, or stop writing.
var (
	// ErrMissing says that no blob of that hash is stored.
	ErrMissing = errors.New("blob missing")
	// ErrCorrupt says that what is stored has not the size or the hash that the reader named.
	ErrCorrupt = errors.New("blob corrupt")
	// ErrFull says that the blob did not fit, and that nothing of it was kept.
	ErrFull = errors.New("store full")
)

// Info is what a store knows of a blob without reading it.
type Info struct {
	Hash Hash
	Size uint64    // bytes
	Put  time.Time // when it was last put
}

// each calls fn for every blob, in order of hash, and stops at its first error.
func each(all []Info, fn func(Info) error) error {
	slices.SortFunc(all, func(a, b Info) int { return bytes.Compare(a.Hash[:], b.Hash[:]) })
	for _, i := range all {
		if err := fn(i); err != nil {
			return err
		}
	}
	return nil
}

// refusal remembers when a blob last did not fit.
type refusal struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// LastRefusal returns when a blob last did not fit, and the error that its sender got; nil if all did.
func (r *refusal) LastRefusal() (time.Time, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at, r.err
}

// remember keeps an error for lack of room, and returns it.
func (r *refusal) remember(err error) error {
	if errors.Is(err, ErrFull) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.at, r.err = time.Now(), err
	}
	return err
}

// full says in one line that a blob does not fit.
func full(h Hash, size, used, capacity uint64) error {
	return fmt.Errorf("store blob %s of %d bytes: %d of %d bytes in use: %w", h.Short(), size, used, capacity, ErrFull)
}

// verify returns nil when b is the blob of that hash and size.
func verify(h Hash, size uint64, b []byte) error {
	if err := verifySize(h, size, b); err != nil {
		return err
	}
	if Sum(b) != h {
		return fmt.Errorf("blob %s: content has another hash: %w", h.Short(), ErrCorrupt)
	}
	return nil
}

// verifySize returns nil when b has that size.
func verifySize(h Hash, size uint64, b []byte) error {
	if uint64(len(b)) != size {
		return fmt.Errorf("blob %s: stored %d bytes, want %d: %w", h.Short(), len(b), size, ErrCorrupt)
	}
	return nil
}
