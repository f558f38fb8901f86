package remote

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
)

const serviceName = "iota.v1.Orchestrator"

// service says which method answers which call.
var service = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		unary("Terms", (*Server).terms),
		unary("Status", (*Server).status),
		unary("Has", (*Server).has),
		unary("Address", (*Server).address),
	},
	Streams: []grpc.StreamDesc{
		{StreamName: "Session", Handler: streaming((*Server).serveSession), ServerStreams: true, ClientStreams: true},
		{StreamName: "Put", Handler: streaming((*Server).put), ClientStreams: true},
		{StreamName: "Get", Handler: streaming((*Server).get), ServerStreams: true},
	},
}

func unary[A any](name string, f func(*Server, context.Context, *A) (any, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(s any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := new(A)
		if err := decode(in); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		if err := s.(*Server).pace(ctx); err != nil {
			return nil, err
		}
		return f(s.(*Server), ctx, in)
	}}
}

func streaming(f func(*Server, grpc.ServerStream) error) grpc.StreamHandler {
	return func(s any, stream grpc.ServerStream) error {
		if err := s.(*Server).pace(stream.Context()); err != nil {
			return err
		}
		return f(s.(*Server), stream)
	}
}

// caller returns whose call it is, and over which connection.
func caller(ctx context.Context) (*member, interface{ Close() error }) {
	p, _ := peer.FromContext(ctx)
	id := p.AuthInfo.(identity) // the handshake made it
	return id.member, id.raw
}

// tap counts a call before anything of it is read, and cuts the connection of one that is not over in time. Streams that
// may take long have time limits of their own.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	who, raw := caller(ctx)
	if err := s.members.start(who); err != nil {
		return nil, err
	}
	var overdue *time.Timer
	if info.FullMethodName != method("Session") && info.FullMethodName != method("Put") && info.FullMethodName != method("Get") {
		overdue = time.AfterFunc(callPatience, func() { raw.Close() })
	}
	context.AfterFunc(ctx, func() {
		s.members.done(who)
		if overdue != nil {
			overdue.Stop()
		}
	})
	return ctx, nil
}

func method(name string) string { return "/" + serviceName + "/" + name }

// pace lets a key make so many calls per second.
func (s *Server) pace(ctx context.Context) error {
	who, _ := caller(ctx)
	if err := who.calls.Wait(ctx); err != nil {
		return status.Error(codes.Unavailable, "too many calls: try again later")
	}
	return nil
}

func (s *Server) terms(context.Context, *message.Ask) (any, error) {
	return &message.RunTerms{Protocol: Version, Manifest: s.Manifest, Bucket: s.Bucket != nil}, nil
}

// page keeps the status for a moment: who asks often gets the same again.
type page struct {
	mu   sync.Mutex
	made time.Time
	json []byte
	err  error
}

func (s *Server) status(context.Context, *message.Ask) (any, error) {
	s.page.mu.Lock()
	defer s.page.mu.Unlock()
	if time.Since(s.page.made) >= statusEvery {
		s.page.json, s.page.err = s.Status()
		s.page.made = time.Now()
	}
	if s.page.err != nil {
		return nil, s.answer("status", s.page.err)
	}
	return &message.RunStatus{Json: s.page.json}, nil
}

func (s *Server) has(ctx context.Context, ref *message.BlobRef) (any, error) {
	who, _ := caller(ctx)
	if err := s.members.participant(who); err != nil {
		return nil, err
	}
	hash, err := hashOf(ref)
	if err != nil {
		return nil, err
	}
	_, err = s.Blobs.Size(ctx, hash)
	if err == nil {
		return &message.Holding{Stored: true}, nil
	}
	if errors.Is(err, store.ErrMissing) {
		held, err := s.members.held(who, hash)
		return &message.Holding{Held: held}, err
	}
	return nil, s.answer("blob "+hash.Short(), err)
}
