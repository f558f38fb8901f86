package journal

import (
	"encoding/binary"
	"time"

	"github.com/zeebo/blake3"
)

// Link returns the next link of the chain over a run: H(previous, now, event, outbound). Every encoded part has its
// length before it, so that no two events give the same input to the hash.
func Link(previous [32]byte, now time.Duration, event []byte, outbound [][]byte) (link [32]byte) {
	h := blake3.New()
	var n [8]byte
	number := func(x uint64) {
		binary.LittleEndian.PutUint64(n[:], x)
		_, _ = h.Write(n[:]) // never fails
	}
	_, _ = h.Write(previous[:])
	number(uint64(now))
	for _, part := range append([][]byte{event}, outbound...) {
		number(uint64(len(part)))
		_, _ = h.Write(part)
	}
	h.Sum(link[:0])
	return link
}
