package remote

import (
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// Limits bound what peers can make a server hold and do. A zero field means its default.
type Limits struct {
	Connections           int // that proved a key, in total: 1024
	ConnectionsPerAddress int // 256
	ConnectionsPerKey     int // 4: a new one takes the place of the oldest
	HalfOpen              int // that did not prove a key yet: 256, a quarter of them from one address; new ones replace old ones

	Handshake time.Duration // 10 s to prove a key
	Silence   time.Duration // 30 s without a message end a session
	Stall     time.Duration // 10 s without a byte end a transfer
	Linger    time.Duration // 5 s to take the last messages of a session or of the server

	Blob           int64 // bytes of a blob: 1 GiB
	Memory         int64 // bytes of the blobs on their way, from and to all keys: 4 GiB, at least Blob
	MemoryPerKey   int64 // 2 GiB, at least Blob
	BytesPerSecond int64 // of blobs, per key and direction: 256 MiB
	Calls          int   // per second and key: 1000
}

// What has no reason to be changed.
const (
	maxMessage      = message.MaxSize // bytes of one message, beyond which nobody decodes it
	maxStreams      = 32              // calls at once, per connection and per key
	maxStrangers    = 4               // calls at once of a key without a session
	maxSessions     = 2               // of a key; a new one takes the place of the oldest
	maxBacklog      = 64              // sessions that wait for Accept
	maxHeaders      = 8 << 10         // bytes of a call's headers
	maxMembers      = 4096            // keys that are remembered
	rememberFor     = time.Minute     // how long, after the last connection: a participant that comes back finds its upload
	slowest         = 16 << 10        // bytes per second of a blob over its whole way
	pieceSize       = 128 << 10       // bytes of a blob that travel together
	streamWindow    = 4 << 20         // bytes of one call that may be under way
	windowPerConn   = 8 << 20         // bytes of all calls of a connection
	connectionBytes = 64 << 10        // write buffer of a connection
	callPatience    = 30 * time.Second
	pingEvery       = 10 * time.Second
	pingPatience    = 10 * time.Second
	idleFor         = 2 * time.Minute // a connection without a call is closed then
	statusEvery     = 500 * time.Millisecond
)

func (l Limits) withDefaults() Limits {
	for _, v := range []struct {
		field *int
		value int
	}{{&l.Connections, 1024}, {&l.ConnectionsPerAddress, 256}, {&l.ConnectionsPerKey, 4}, {&l.HalfOpen, 256}, {&l.Calls, 1000}} {
		if *v.field <= 0 {
			*v.field = v.value
		}
	}
	for _, v := range []struct {
		field *time.Duration
		value time.Duration
	}{{&l.Handshake, 10 * time.Second}, {&l.Silence, 30 * time.Second}, {&l.Stall, 10 * time.Second}, {&l.Linger, 5 * time.Second}} {
		if *v.field <= 0 {
			*v.field = v.value
		}
	}
	for _, v := range []struct {
		field *int64
		value int64
	}{{&l.Blob, 1 << 30}, {&l.Memory, 4 << 30}, {&l.MemoryPerKey, 2 << 30}, {&l.BytesPerSecond, 256 << 20}} {
		if *v.field <= 0 {
			*v.field = v.value
		}
	}
	l.MemoryPerKey = max(l.MemoryPerKey, l.Blob+overhead)
	l.Memory = max(l.Memory, l.MemoryPerKey)
	l.BytesPerSecond = max(l.BytesPerSecond, pieceSize)
	return l
}
