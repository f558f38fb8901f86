package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/iota-train/iota/edge/transport"
)

// session is a transport.Conn over one stream, at either end. One goroutine sends and one receives; each holds at most
// one message, the rest waits at the other end of the wire.
type session struct {
	remote   string
	in, out  chan []byte
	patience time.Duration // with a silent peer

	once  sync.Once
	close chan struct{} // closed by Close
	over  sync.Once
	ended chan struct{} // closed when the stream has ended
	err   error         // why; set before
}

func newSession(remote string) *session {
	return &session{remote: remote, in: make(chan []byte), out: make(chan []byte),
		close: make(chan struct{}), ended: make(chan struct{})}
}

// Remote is the key at the other end.
func (s *session) Remote() string { return s.remote }

// Send returns when the message is on its way: at most one more waits.
func (s *session) Send(ctx context.Context, b []byte) error {
	if len(b) > maxMessage {
		return fmt.Errorf("send: message of %d bytes exceeds %d", len(b), maxMessage)
	}
	if err := s.closed(); err != nil {
		return err
	}
	select {
	case s.out <- b:
		return nil
	case <-s.close:
		return transport.ErrClosed
	case <-s.ended:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Recv returns the next message.
func (s *session) Recv(ctx context.Context) ([]byte, error) {
	if isClosed(s.close) {
		return nil, transport.ErrClosed
	}
	select {
	case b := <-s.in:
		return b, nil
	case <-s.close:
		return nil, transport.ErrClosed
	case <-s.ended:
		return nil, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the session. A message that was sent before still reaches the other end, if that takes it soon.
func (s *session) Close() error {
	s.once.Do(func() { close(s.close) })
	return nil
}

func (s *session) closed() error {
	if isClosed(s.close) {
		return transport.ErrClosed
	}
	if isClosed(s.ended) {
		return s.err
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// end says that the stream has ended, and why.
func (s *session) end(err error) {
	s.over.Do(func() {
		switch {
		case err == nil || errors.Is(err, io.EOF):
			err = transport.ErrClosed
		case status.Code(err) == codes.PermissionDenied:
			err = fmt.Errorf("%w: %s", transport.ErrDenied, status.Convert(err).Message())
		default:
			err = fmt.Errorf("%w: %s", transport.ErrClosed, status.Convert(err).Message())
		}
		s.err = err
		close(s.ended)
	})
}

// stream is what both ends of a gRPC stream offer.
type stream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// send passes messages to the stream until the session is closed or over. What was taken before a close is sent.
func (s *session) send(to stream) {
	for {
		select {
		case b := <-s.out:
			if err := to.SendMsg(mem.BufferSlice{mem.SliceBuffer(b)}); err != nil {
				return // the receiver learns why
			}
		case <-s.close:
			return
		case <-s.ended:
			return
		}
	}
}

// receive passes messages from the stream until that ends; those that come after a close go nowhere. The timer, if any,
// runs while the other end has the word.
func (s *session) receive(from stream, silence *time.Timer) {
	for {
		var b []byte
		if err := from.RecvMsg(&b); err != nil {
			s.end(err)
			return
		}
		if silence != nil {
			silence.Stop()
		}
		select {
		case s.in <- b:
		case <-s.close:
		case <-s.ended:
			return
		}
		if silence != nil {
			silence.Reset(s.patience)
		}
	}
}

// serveSession is the orchestrator's end, from the call to its answer.
func (s *Server) serveSession(stream grpc.ServerStream) error {
	who, raw := caller(stream.Context())
	if err := s.admit(who); err != nil {
		return err
	}
	one := newSession(who.key)
	one.patience = s.limits.Silence
	if old := s.members.join(who, one); old != nil {
		old.Close()
	}
	defer func() { s.members.part(who, one, isClosed(one.close)) }()
	if err := stream.SendHeader(nil); err != nil { // tells the dialler that it is let in
		return err
	}
	select {
	case s.waiting <- one:
	default:
		return status.Error(codes.Unavailable, "too many sessions wait to be taken up: try again")
	}
	var silent atomic.Bool
	silence := time.AfterFunc(one.patience, func() { silent.Store(true); one.end(nil) })
	defer silence.Stop()
	s.tasks.Go(func() { one.receive(stream, silence) })
	s.tasks.Go(func() { s.linger(stream.Context(), one, raw) })
	one.send(stream)
	one.end(nil)
	if silent.Load() {
		return status.Errorf(codes.DeadlineExceeded, "no message for %v", one.patience)
	}
	return nil
}

// linger cuts the connection of an end that does not take what is sent to it, some time after its session is over.
func (s *Server) linger(ctx context.Context, one *session, raw io.Closer) {
	select {
	case <-one.close:
	case <-one.ended:
	}
	timer := time.NewTimer(s.limits.Linger)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		raw.Close()
	}
}
