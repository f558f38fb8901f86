package remote

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net"

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

// ServerConfig is what a Server needs.
type ServerConfig struct {
	Key      ed25519.PrivateKey
	Manifest []byte                 // encoded message.Manifest
	Status   func() ([]byte, error) // JSON, for whoever asks
	Blobs    Blobs
	// Admit decides whether a key may open a session; nil admits everyone. The dialler is told the error.
	Admit func(key ed25519.PublicKey) error
	Log   *slog.Logger
}

// Server offers one run to participants that dial it. It is the listener that a Hub serves.
type Server struct {
	ServerConfig
}

// NewServer returns a server that does not listen yet.
func NewServer(c ServerConfig) (*Server, error) { return &Server{ServerConfig: c}, nil }

// Serve answers those who dial l, until Close.
func (s *Server) Serve(l net.Listener) error { return errors.New("not built yet") }

// Accept returns the next session; its Remote is the key that dialled. After Close it returns transport.ErrClosed.
func (s *Server) Accept(ctx context.Context) (transport.Conn, error) {
	return nil, errors.New("not built yet")
}

// Close ends all connections.
func (s *Server) Close() error { return nil }
