package message

import (
	"fmt"
	"io"

	"github.com/zeebo/blake3"
)

const (
	firstRoom = 4 << 20 // bytes: a tensor of usual size is never moved
	hashSpan  = 8 << 10 // bytes: the hash takes whole spans at full speed
)

// Assembly is a blob on its way, whose bytes come in pieces. They are hashed as they come. Its memory follows what has
// come, whatever size was announced: beyond firstRoom it is at most twice that.
type Assembly struct {
	size   int
	bytes  []byte
	hashed int
	hasher *blake3.Hasher
}

// Assemble begins a blob of size bytes.
func Assemble(size int) *Assembly { return &Assembly{size: size, hasher: blake3.New()} }

// Len returns how many bytes have come.
func (a *Assembly) Len() int { return len(a.bytes) }

// Left returns how many bytes are still to come.
func (a *Assembly) Left() int { return a.size - len(a.bytes) }

// Room returns how many bytes of memory n more bytes would add.
func (a *Assembly) Room(n int) int {
	need := len(a.bytes) + n
	if need <= cap(a.bytes) {
		return 0
	}
	return min(a.size, max(firstRoom, 2*cap(a.bytes), need)) - cap(a.bytes)
}

// Take reads exactly n bytes from r. More than there are to come is an error, and nothing is read then.
func (a *Assembly) Take(r io.Reader, n int) error {
	if n > a.Left() {
		return fmt.Errorf("more than the %d bytes that were announced", a.size)
	}
	if room := a.Room(n); room > 0 {
		grown := make([]byte, len(a.bytes), cap(a.bytes)+room)
		copy(grown, a.bytes)
		a.bytes = grown
	}
	at := len(a.bytes)
	if _, err := io.ReadFull(r, a.bytes[at:at+n]); err != nil {
		return fmt.Errorf("a piece ends early: %w", err)
	}
	a.bytes = a.bytes[:at+n]
	a.hash(len(a.bytes) / hashSpan * hashSpan)
	return nil
}

func (a *Assembly) hash(to int) {
	a.hasher.Write(a.bytes[a.hashed:to]) // never fails
	a.hashed = to
}

// Blob returns what came, with its hash. Nothing can be taken any more.
func (a *Assembly) Blob() Blob {
	a.hash(len(a.bytes))
	b := Blob{bytes: a.bytes}
	copy(b.hash[:], a.hasher.Sum(nil))
	a.size = len(a.bytes)
	return b
}
