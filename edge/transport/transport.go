// Package transport carries messages and models the links they pass. Conn and Listener are what the drivers need of a
// connection, whatever it runs over. Link and Lane are the arithmetic of a full-duplex link, for a simulator's virtual
// clock; End, Desk and Network are connections within one process, paced by those links in real time when asked; Shaped
// charges a blob store's traffic to the same links. Messages are bytes.
package transport

import (
	"context"
	"errors"

	"github.com/iota-train/iota/protocol/message"
)

// Conn is an ordered, two-way message connection. All methods may be called by many goroutines.
type Conn interface {
	// Remote names who is at the other end: for an accepted connection, the key that dialled, which it has proved.
	Remote() string
	// Send queues one message, which belongs to the connection from now on. It waits while too much is queued.
	Send(ctx context.Context, b []byte) error
	// Recv returns the next message, which belongs to the caller, and ErrClosed after the last.
	Recv(ctx context.Context) ([]byte, error)
	// Close ends the connection in both directions.
	Close() error
}

// Listener accepts the connections that participants dial.
type Listener interface {
	// Accept returns the next connection, or ErrClosed after Close.
	Accept(ctx context.Context) (Conn, error)
	// Close stops accepting. Accepted connections live on.
	Close() error
}

// What the callers of Send, Recv, Accept and Dial branch on.
var (
	// ErrClosed says that the connection, listener or network was closed, here or at the other end.
	ErrClosed = errors.New("connection closed")
	// ErrRefused says that nobody listens, or that too many dials wait.
	ErrRefused = errors.New("connection refused")
	// ErrDenied says that the other end is not whom the caller looked for, or will not deal with the caller, whenever
	// asked; the text says why.
	ErrDenied = errors.New("denied")
)

const (
	// MaxMessage bounds the bytes of one message, beyond which nobody decodes it; larger things are blobs.
	MaxMessage = message.MaxSize
	// queueMessages and queueBytes bound what one direction of a connection holds; a sender waits beyond either.
	queueMessages = 256
	queueBytes    = 2 * MaxMessage
)
