package remote

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
)

// addressFor is how long a presigned address is good.
const addressFor = 5 * time.Minute

// address is the orchestrator's end of Address.
func (s *Server) address(ctx context.Context, r *message.Request) (any, error) {
	who, _ := caller(ctx)
	if s.Bucket == nil {
		return nil, status.Error(codes.Unimplemented, "this run's blobs are not in a bucket")
	}
	hash, size, err := s.named(r.GetBlob())
	if err == nil && r.GetPut() {
		err = s.members.participant(who)
	} else if err == nil {
		err = s.mayRead(who, hash)
	}
	if err != nil {
		return nil, err
	}
	var url string
	if r.GetPut() {
		for left := size; left > 0; left -= pieceSize { // a key may promise as many bytes per second as it may send
			if err := who.in.WaitN(ctx, min(left, pieceSize)); err != nil {
				return nil, status.Error(codes.Unavailable, "more bytes than a key may move per second")
			}
		}
		url, err = s.Bucket.PresignPut(ctx, hash, uint64(size), addressFor)
	} else {
		url, err = s.Bucket.PresignGet(ctx, hash, addressFor)
	}
	if err != nil {
		return nil, s.answer("blob "+hash.Short(), err)
	}
	return &message.Presigned{Url: url}, nil
}

// Presign asks for a presigned address: a store.Addresses.
func (c *Client) Presign(ctx context.Context, access store.Access, h store.Hash, size uint64) (string, error) {
	var p message.Presigned
	err := c.persist(ctx, "blob "+h.Short(), func(t *attempt) error {
		r := &message.Request{Blob: &message.BlobRef{Hash: h[:], Size: size}, Put: access == store.AccessPut}
		return c.call(t.ctx, "Address", r, &p)
	})
	return p.GetUrl(), err
}

// Bucket reports whether the run's blobs are in a bucket, so that they are put and got at presigned addresses. It is
// known once Manifest was asked for.
func (c *Client) Bucket() bool { return c.bucket.Load() }
