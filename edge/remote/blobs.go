package remote

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
)

func hashOf(ref *message.BlobRef) (store.Hash, error) {
	if len(ref.GetHash()) != len(store.Hash{}) {
		return store.Hash{}, status.Errorf(codes.InvalidArgument, "a blob's hash has %d bytes, not %d", len(store.Hash{}), len(ref.GetHash()))
	}
	return store.Hash(ref.GetHash()), nil
}

// named checks what a peer says of a blob.
func (s *Server) named(ref *message.BlobRef) (store.Hash, int, error) {
	hash, err := hashOf(ref)
	if err == nil && ref.GetSize() > uint64(s.limits.Blob) {
		err = status.Errorf(codes.InvalidArgument, "blob %s of %d bytes: more than %d are not accepted", hash.Short(), ref.GetSize(), s.limits.Blob)
	}
	return hash, int(ref.GetSize()), err
}

// transfer is a Put or a Get under way: it is over when it is done, when no byte moved for too long, or when all of it
// took too long.
type transfer struct {
	s     *Server
	who   *member
	pace  *rate.Limiter
	stall *time.Timer
	slow  *time.Timer
}

// attend runs a transfer. When it is over before its time the stream ends with the call, and body with the stream.
func (s *Server) attend(stream grpc.ServerStream, pace func(*member) *rate.Limiter, body func(*transfer) error) error {
	who, _ := caller(stream.Context())
	t := &transfer{s: s, who: who, pace: pace(who), stall: time.NewTimer(s.limits.Stall), slow: time.NewTimer(callPatience)}
	defer t.stall.Stop()
	defer t.slow.Stop()
	done := make(chan error, 1)
	s.tasks.Go(func() { done <- body(t) })
	select {
	case err := <-done:
		return err
	case <-t.stall.C:
		return status.Errorf(codes.DeadlineExceeded, "no byte moved for %v", s.limits.Stall)
	case <-t.slow.C:
		return status.Errorf(codes.DeadlineExceeded, "a blob travels at %d bytes per second or faster", slowest)
	}
}

// moved notes that bytes came or went.
func (t *transfer) moved(ctx context.Context, n int) error {
	t.stall.Stop() // the server's own doing
	defer t.stall.Reset(t.s.limits.Stall)
	if err := t.pace.WaitN(ctx, n); err != nil {
		return status.Error(codes.Unavailable, "more bytes than a key may move per second")
	}
	return nil
}

// expect allows a blob its time.
func (t *transfer) expect(size int) {
	t.slow.Reset(callPatience + time.Duration(float64(size)/slowest*float64(time.Second)))
}

// put is the orchestrator's end of Put.
func (s *Server) put(stream grpc.ServerStream) error {
	return s.attend(stream, func(w *member) *rate.Limiter { return w.in }, func(t *transfer) error {
		if err := s.members.participant(t.who); err != nil {
			return err
		}
		var piece mem.BufferSlice
		if err := stream.RecvMsg(&piece); err != nil {
			return err
		}
		named, err := unpack(piece, func(io.Reader, int) error { return errors.New("the first piece names the upload") })
		if err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		hash, size, err := s.named(named.GetBlob())
		if err != nil {
			return err
		}
		u, err := s.members.begin(t.who, hash, size, named.GetOffset())
		if err != nil {
			return err
		}
		t.expect(size)
		keep, err := t.receive(stream, u)
		if err == nil {
			t.stall.Stop() // from here on it is the store's time
			err = s.keep(hash, u.assembly.Blob(), named.GetDurable())
		}
		s.members.end(t.who, hash, u, keep)
		if err != nil {
			return err
		}
		return stream.SendMsg(&message.Holding{Stored: true})
	})
}

// receive takes the pieces of an upload. It reports whether the upload can be gone on with after an error.
func (t *transfer) receive(stream grpc.ServerStream, u *upload) (keep bool, err error) {
	take := func(r io.Reader, n int) error {
		if n > u.assembly.Left() {
			return errors.New("more bytes than the blob has")
		}
		if room := int64(u.assembly.Room(n)); room > 0 {
			if err := t.s.members.reserve(t.who, u, room); err != nil {
				return err
			}
		}
		return u.assembly.Take(r, n)
	}
	for {
		var piece mem.BufferSlice
		err := stream.RecvMsg(&piece)
		if err == io.EOF {
			break
		}
		if err != nil {
			return true, err
		}
		n := min(piece.Len(), pieceSize)
		named, err := unpack(piece, take)
		switch {
		case status.Code(err) == codes.Unavailable:
			return true, err
		case err != nil:
			return false, status.Error(codes.InvalidArgument, err.Error())
		case named != nil:
			return false, status.Error(codes.InvalidArgument, "only the first piece names the upload")
		}
		if err := t.moved(stream.Context(), n); err != nil {
			return true, err
		}
	}
	if left := u.assembly.Left(); left > 0 {
		return true, status.Errorf(codes.Aborted, "%d bytes of the blob are missing", left)
	}
	return false, nil
}

// keep stores what came, if it is what was named.
func (s *Server) keep(hash store.Hash, b message.Blob, durable bool) error {
	if b.Hash() != hash {
		return s.answer("blob "+hash.Short()+": what came has another hash", store.ErrCorrupt)
	}
	put := s.Blobs.Put
	if durable {
		put = s.Blobs.PutDurable
	}
	_, err := put(s.ctx, b)
	return s.answer("store blob "+hash.Short(), err)
}

// get is the orchestrator's end of Get.
func (s *Server) get(stream grpc.ServerStream) error {
	return s.attend(stream, func(w *member) *rate.Limiter { return w.out }, func(t *transfer) error {
		var wanted message.Wanted
		if err := stream.RecvMsg(&wanted); err != nil {
			return err
		}
		hash, size, err := s.named(wanted.GetBlob())
		if err != nil {
			return err
		}
		if err := s.mayRead(t.who, hash); err != nil {
			return err
		}
		if wanted.GetOffset() > uint64(size) {
			return status.Error(codes.InvalidArgument, "the offset lies behind the blob's end")
		}
		stored, err := s.Blobs.Size(stream.Context(), hash)
		if err == nil && stored != uint64(size) { // what is not there must not take up memory that others need
			err = store.ErrCorrupt
		}
		if err != nil {
			return s.answer("blob "+hash.Short(), err)
		}
		if err := s.members.reserve(t.who, nil, int64(size)); err != nil {
			return err
		}
		defer s.members.release(t.who, int64(size))
		t.stall.Stop() // while the store reads
		t.expect(size)
		b, err := s.Blobs.Get(s.ctx, hash, uint64(size))
		t.stall.Reset(s.limits.Stall)
		if err != nil {
			return s.answer("blob "+hash.Short(), err)
		}
		for b = b[wanted.GetOffset():]; len(b) > 0; {
			n := min(len(b), pieceSize)
			if err := stream.SendMsg(pack(b[:n])); err != nil {
				return err
			}
			if err := t.moved(stream.Context(), n); err != nil {
				return err
			}
			b = b[n:]
		}
		return nil
	})
}
