package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
)

// Put stores a blob. What the orchestrator has of it from an attempt that broke off is not sent again.
func (c *Client) Put(ctx context.Context, b message.Blob) (store.Hash, error) {
	return c.put(ctx, b, false)
}

// PutDurable is Put, but the blob survives a power cut.
func (c *Client) PutDurable(ctx context.Context, b message.Blob) (store.Hash, error) {
	return c.put(ctx, b, true)
}

func (c *Client) put(ctx context.Context, b message.Blob, durable bool) (store.Hash, error) {
	hash := store.Hash(b.Hash())
	first := true
	err := c.persist(ctx, "store blob "+hash.Short(), func(t *attempt) error {
		up := &message.Upload{Blob: b.Ref(), Durable: durable}
		if !first {
			h, err := c.holding(t.ctx, hash)
			if err != nil || h.GetStored() && !durable {
				return err
			}
			up.Offset = min(h.GetHeld(), uint64(len(b.Bytes())))
		}
		first = false
		return c.send(t, up, b.Bytes())
	})
	if err != nil {
		return store.Hash{}, err
	}
	return hash, nil
}

// send is one attempt to put a blob's bytes from an offset.
func (c *Client) send(t *attempt, up *message.Upload, b []byte) error {
	stream, err := c.conn.NewStream(t.ctx, &service.Streams[1], method("Put"))
	if err != nil {
		return err
	}
	first := &message.Piece{Kind: &message.Piece_Upload{Upload: up}}
	at := up.GetOffset()
	for err = stream.SendMsg(first); err == nil && at < uint64(len(b)); {
		piece := b[at:min(at+pieceSize, uint64(len(b)))]
		if err = stream.SendMsg(pack(piece)); err == nil {
			at += uint64(len(piece))
			t.moved(at)
		}
	}
	if err == nil {
		t.allow(len(b)) // for the store
		err = stream.CloseSend()
	}
	var h message.Holding
	if e := stream.RecvMsg(&h); e != nil || err == nil || err == io.EOF {
		err = e // an answer says more than that the stream is over
	}
	if err == nil && !h.GetStored() {
		err = status.Error(codes.Aborted, "the blob was not stored")
	}
	return err
}

// Get returns the blob, verified. An attempt that breaks off is gone on with where it was.
func (c *Client) Get(ctx context.Context, h store.Hash, size uint64) ([]byte, error) {
	if size > 1<<40 {
		return nil, fmt.Errorf("blob %s of %d bytes: nobody has that", h.Short(), size)
	}
	a := message.Assemble(int(size))
	err := c.persist(ctx, "blob "+h.Short(), func(t *attempt) error { return c.receive(t, h, a) })
	if err != nil {
		return nil, err
	}
	b := a.Blob()
	if store.Hash(b.Hash()) != h {
		return nil, fmt.Errorf("blob %s: what came has another hash: %w", h.Short(), store.ErrCorrupt)
	}
	return b.Bytes(), nil
}

// receive is one attempt to get what is missing of a blob.
func (c *Client) receive(t *attempt, h store.Hash, a *message.Assembly) error {
	t.allow(a.Left()) // for the store
	stream, err := c.conn.NewStream(t.ctx, &service.Streams[2], method("Get"))
	if err != nil {
		return err
	}
	wanted := &message.Wanted{Blob: &message.BlobRef{Hash: h[:], Size: uint64(a.Len() + a.Left())}, Offset: uint64(a.Len())}
	if err := stream.SendMsg(wanted); err != nil && err != io.EOF {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		var piece mem.BufferSlice
		err := stream.RecvMsg(&piece)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if _, err := unpack(piece, a.Take); err != nil {
			return status.Errorf(codes.InvalidArgument, "blob %s: %v", h.Short(), err)
		}
		t.moved(uint64(a.Len()))
	}
	if a.Left() > 0 {
		return status.Errorf(codes.Aborted, "%d bytes of blob %s are missing", a.Left(), h.Short())
	}
	return nil
}

// Has reports whether the blob is stored.
func (c *Client) Has(ctx context.Context, h store.Hash) (bool, error) {
	var stored bool
	err := c.persist(ctx, "look for blob "+h.Short(), func(t *attempt) error {
		holding, err := c.holding(t.ctx, h)
		stored = holding.GetStored()
		return err
	})
	return stored, err
}

func (c *Client) holding(ctx context.Context, h store.Hash) (*message.Holding, error) {
	holding := new(message.Holding)
	return holding, c.call(ctx, "Has", &message.BlobRef{Hash: h[:]}, holding)
}

// attempt is one try of a transfer. Its context ends when nothing moves.
type attempt struct {
	ctx      context.Context
	stall    time.Duration
	timer    *time.Timer
	best     *uint64 // bytes, over all attempts
	advanced bool
}

// moved notes how far a transfer is.
func (t *attempt) moved(at uint64) {
	t.timer.Reset(t.stall)
	if at > *t.best {
		*t.best, t.advanced = at, true
	}
}

// allow gives the other end's store time for so many bytes.
func (t *attempt) allow(size int) {
	const storeSpeed = 16 << 20 // bytes per second
	t.timer.Reset(t.stall + time.Duration(size/storeSpeed)*time.Second)
}

var errStalled = errors.New("no byte moved for too long")

// persist tries until a transfer is done, cannot be done, or so many attempts in a row brought it no further. Those made
// while nobody answers at the orchestrator's address do not count: who waits for an orchestrator that is down bounds the
// wait by ctx.
func (c *Client) persist(ctx context.Context, what string, try func(*attempt) error) error {
	var best uint64
	pause := 50 * time.Millisecond
	for failures := 0; ; {
		life, cancel := context.WithCancelCause(ctx)
		t := &attempt{ctx: life, stall: c.stall, best: &best}
		t.timer = time.AfterFunc(c.stall, func() { cancel(errStalled) })
		err := try(t)
		t.timer.Stop()
		if context.Cause(life) == errStalled {
			err = status.Errorf(codes.DeadlineExceeded, "no byte moved for %v", c.stall)
		}
		cancel(nil)
		if err == nil || ctx.Err() != nil || final(err) || c.wrongKey.Load() != nil || c.conn.GetState() == connectivity.Shutdown {
			return c.explain(ctx, what, err)
		}
		if t.advanced {
			failures, pause = 0, 50*time.Millisecond
		}
		if !c.away() {
			failures++
		}
		if failures >= c.attempts {
			return fmt.Errorf("given up after %d attempts: %w", failures, c.explain(ctx, what, err))
		}
		timer := time.NewTimer(pause/2 + time.Duration(mrand.Int64N(int64(pause))))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
		pause = min(2*pause, c.pause)
	}
}

// away reports whether the orchestrator cannot be reached at all.
func (c *Client) away() bool {
	state := c.conn.GetState()
	return state == connectivity.TransientFailure || state == connectivity.Connecting
}
