package transport

import (
	"context"

	"github.com/iota-train/iota/protocol/message"
)

// Blobs is what Shaped needs of a store, for any type H of hash.
type Blobs[H any] interface {
	// Put stores b and returns its hash.
	Put(ctx context.Context, b message.Blob) (H, error)
	// PutDurable is Put, but the blob survives a power cut.
	PutDurable(ctx context.Context, b message.Blob) (H, error)
	// Get returns the verified blob; the caller does not modify it.
	Get(ctx context.Context, h H, size uint64) ([]byte, error)
	// Has reports whether the blob is stored.
	Has(ctx context.Context, h H) (bool, error)
}

// Shaped is a far store behind a participant's link: every Put passes the upward lane before it is stored, every Get
// the downward lane before it is returned, in real time.
type Shaped[H any] struct {
	blobs Blobs[H]
	link  *Shaper
}

// NewShaped charges the store's traffic to the link. A nil link is unlimited.
func NewShaped[H any](blobs Blobs[H], link *Shaper) *Shaped[H] {
	return &Shaped[H]{blobs: blobs, link: link}
}

// Put uploads b, then stores it. When ctx ends first, nothing is stored.
func (s *Shaped[H]) Put(ctx context.Context, b message.Blob) (H, error) {
	if err := s.link.transfer(ctx, true, len(b.Bytes())); err != nil {
		var none H
		return none, err
	}
	return s.blobs.Put(ctx, b)
}

// PutDurable uploads b, then stores it durably.
func (s *Shaped[H]) PutDurable(ctx context.Context, b message.Blob) (H, error) {
	if err := s.link.transfer(ctx, true, len(b.Bytes())); err != nil {
		var none H
		return none, err
	}
	return s.blobs.PutDurable(ctx, b)
}

// Get asks for the blob and downloads it. An answer without bytes, such as a missing blob, costs the round trip.
func (s *Shaped[H]) Get(ctx context.Context, h H, size uint64) ([]byte, error) {
	if err := s.link.transfer(ctx, true, 0); err != nil {
		return nil, err
	}
	b, err := s.blobs.Get(ctx, h, size)
	if e := s.link.transfer(ctx, false, len(b)); err == nil && e != nil {
		return nil, e
	}
	return b, err
}

// Has costs a round trip.
func (s *Shaped[H]) Has(ctx context.Context, h H) (bool, error) {
	if err := s.link.transfer(ctx, true, 0); err != nil {
		return false, err
	}
	ok, err := s.blobs.Has(ctx, h)
	if e := s.link.transfer(ctx, false, 0); err == nil && e != nil {
		return false, e
	}
	return ok, err
}
