package remote

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/protocol/message"
)

// Blobs is the orchestrator's store, store.Dir for instance.
type Blobs interface {
	Put(ctx context.Context, b message.Blob) (store.Hash, error)
	PutDurable(ctx context.Context, b message.Blob) (store.Hash, error)
	Get(ctx context.Context, h store.Hash, size uint64) ([]byte, error)
	Size(ctx context.Context, h store.Hash) (uint64, error)
}

// Bucket presigns requests for blobs: store.S3.
type Bucket interface {
	PresignPut(ctx context.Context, h store.Hash, size uint64, expires time.Duration) (string, error)
	PresignGet(ctx context.Context, h store.Hash, expires time.Duration) (string, error)
}

// ServerConfig is what a Server needs.
type ServerConfig struct {
	Key      ed25519.PrivateKey
	Manifest []byte                 // encoded message.Manifest
	Status   func() ([]byte, error) // JSON, for whoever asks
	Blobs    Blobs
	Bucket   Bucket // where the blobs are, if participants are to reach it themselves; nil: they come through here
	// Admit decides whether a key may open a session; nil admits everyone. The dialler is told the error.
	Admit  func(key ed25519.PublicKey) error
	Limits Limits
	Log    *slog.Logger
}

// Server offers one run to participants that dial it. It is the listener that a Hub serves.
type Server struct {
	ServerConfig
	limits  Limits
	members *members
	grpc    *grpc.Server
	waiting chan *session
	tasks   sync.WaitGroup // all that calls start
	ctx     context.Context
	cancel  context.CancelFunc

	mu    sync.Mutex
	doors []*door

	texts map[store.Hash]bool // what a newcomer reads before it opens a session

	page     page
	complain rate.Sometimes // of handshakes that fail: anybody can make them
}

// NewServer returns a server that does not listen yet.
func NewServer(c ServerConfig) (*Server, error) {
	config, err := serverTLS(c.Key)
	if err != nil {
		return nil, err
	}
	if c.Blobs == nil || c.Status == nil || c.Log == nil {
		return nil, errors.New("a server needs a store, a status and a log")
	}
	s := &Server{ServerConfig: c, limits: c.Limits.withDefaults(), waiting: make(chan *session, maxBacklog),
		texts: map[store.Hash]bool{}, complain: rate.Sometimes{Interval: pingEvery}}
	var m message.Manifest
	if err := message.Decode(c.Manifest, &m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	for _, ref := range m.GetData().GetBlobs() {
		s.texts[store.Hash(ref.GetHash())] = true
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.members = newMembers(s.limits)
	s.grpc = grpc.NewServer(
		grpc.Creds(handshakes{config: config, enter: s.enter, ended: s.failed}),
		grpc.ForceServerCodecV2(codec{}),
		grpc.InTapHandle(s.tap),
		grpc.ConnectionTimeout(s.limits.Handshake),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(windowPerConn),
		grpc.ReadBufferSize(0),
		grpc.WriteBufferSize(connectionBytes),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery, Timeout: pingPatience, MaxConnectionIdle: idleFor}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery / 2, PermitWithoutStream: true}),
	)
	s.grpc.RegisterService(&service, s)
	return s, nil
}

// admit returns an error unless the key may open a session.
func (s *Server) admit(who *member) error {
	if s.Admit == nil {
		return nil
	}
	if err := s.Admit([]byte(who.key)); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return nil
}

// mayRead returns an error unless the key may get the blob: a participant any, a newcomer the run's text.
func (s *Server) mayRead(who *member, h store.Hash) error {
	if s.texts[h] {
		return s.admit(who)
	}
	return s.members.participant(who)
}

// Serve answers those who dial l, until Close.
func (s *Server) Serve(l net.Listener) error {
	d := &door{Listener: l, total: s.limits.HalfOpen, perAddress: max(1, s.limits.HalfOpen/4), members: s.members}
	s.mu.Lock()
	closed := s.ctx.Err() != nil
	if !closed {
		s.doors = append(s.doors, d)
	}
	s.mu.Unlock()
	if closed {
		l.Close()
		return transport.ErrClosed
	}
	err := s.grpc.Serve(d)
	if s.ctx.Err() != nil {
		return nil
	}
	return err
}

// Accept returns the next session; its Remote is the key that dialled. After Close it returns transport.ErrClosed.
func (s *Server) Accept(ctx context.Context) (transport.Conn, error) {
	if s.ctx.Err() != nil {
		return nil, transport.ErrClosed
	}
	select {
	case one := <-s.waiting:
		return one, nil
	case <-s.ctx.Done():
		return nil, transport.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends all sessions, what was sent over them last being delivered where it is taken soon, and all connections.
func (s *Server) Close() error {
	s.mu.Lock()
	s.cancel()
	for _, d := range s.doors {
		d.Close()
	}
	s.mu.Unlock()
	s.members.dismiss()
	stopped := make(chan struct{})
	s.tasks.Go(func() { s.grpc.GracefulStop(); close(stopped) })
	timer := time.NewTimer(s.limits.Linger)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C:
		s.grpc.Stop()
	}
	s.tasks.Wait()
	return nil
}

// enter takes in a connection whose key is proven.
func (s *Server) enter(raw net.Conn, key string) (*member, error) {
	c, ok := raw.(*tcp)
	if !ok {
		return nil, fmt.Errorf("a connection that came through no door: %T", raw)
	}
	return s.members.enter(c, key)
}

// failed notes a handshake that came to nothing; now and then, as anybody can cause them.
func (s *Server) failed(err error) {
	s.complain.Do(func() { s.Log.Warn("a connection was not let in; more may follow unseen", "err", err) })
}
