// Package transport carries messages and models the links they pass. Link and Lane are the arithmetic of a full-duplex
// link, for a simulator's virtual clock; Conn, Listener and Network are message connections within one process, paced by
// those links in real time when asked; Shaped charges a blob store's traffic to the same links. Messages are bytes.
package transport

import (
	"errors"
)

// What the callers of Send, Recv, Accept and Dial branch on.
var (
	// ErrClosed says that the connection, listener or network was closed, here or at the other end.
	ErrClosed = errors.New("connection closed")
	// ErrRefused says that nobody listens, or that too many dials wait.
	ErrRefused = errors.New("connection refused")
)

const (
	// MaxMessage bounds the bytes of one message; larger things are blobs.
	MaxMessage = 16 << 20
	// queueMessages and queueBytes bound what one direction of a connection holds; a sender waits beyond either.
	queueMessages = 256
	queueBytes    = 2 * MaxMessage
)
