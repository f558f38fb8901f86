package remote

import (
	"context"
	"crypto/ed25519"
	"errors"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/protocol/message"
)

// Client reaches one orchestrator. All methods may be called by many goroutines.
type Client struct {
	address Address
}

// Dial returns a client of the orchestrator at the address. It connects when it is first used, and again after a
// connection was lost.
func Dial(a Address, key ed25519.PrivateKey) (*Client, error) { return &Client{address: a}, nil }

// Manifest returns what run this is.
func (c *Client) Manifest(ctx context.Context) (*message.Manifest, error) {
	return nil, errors.New("not built yet")
}

// Connect opens the session on which messages travel.
func (c *Client) Connect(ctx context.Context) (transport.Conn, error) {
	return nil, errors.New("not built yet")
}

// Status returns the run's status as JSON.
func (c *Client) Status(ctx context.Context) ([]byte, error) { return nil, errors.New("not built yet") }

// Put stores a blob.
func (c *Client) Put(ctx context.Context, b message.Blob) (store.Hash, error) {
	return store.Hash{}, errors.New("not built yet")
}

// PutDurable is Put, but the blob survives a power cut.
func (c *Client) PutDurable(ctx context.Context, b message.Blob) (store.Hash, error) {
	return store.Hash{}, errors.New("not built yet")
}

// Get returns the blob, verified.
func (c *Client) Get(ctx context.Context, h store.Hash, size uint64) ([]byte, error) {
	return nil, errors.New("not built yet")
}

// Has reports whether the blob is stored.
func (c *Client) Has(ctx context.Context, h store.Hash) (bool, error) {
	return false, errors.New("not built yet")
}

// Close ends the connection.
func (c *Client) Close() error { return nil }
