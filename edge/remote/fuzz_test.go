package remote

import (
	"bytes"
	"io"
	"testing"

	"google.golang.org/grpc/mem"

	"github.com/iota-train/iota/protocol/message"
)

// FuzzAddress reads strange join strings: a mistake, or one that reads the same again.
func FuzzAddress(f *testing.F) {
	f.Add(Address{Key: public("orchestrator"), Host: "example.org:4040"}.String())
	for _, s := range []string{"", "@", "@:", "00@h:1", "x@[::1]:4040", "\x00@\n", Address{Key: public("x"), Host: "[fe80::1%eth0]:1"}.String()} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddress(s)
		if err != nil {
			return
		}
		if again, err := ParseAddress(a.String()); err != nil || again.String() != a.String() {
			t.Fatalf("%q reads as %q, and that does not: %v", s, a, err)
		}
	})
}

// FuzzPiece unpacks strange pieces of a blob, in one buffer and in two.
func FuzzPiece(f *testing.F) {
	f.Add(pack([]byte("data")).Materialize(), uint8(3))
	f.Add(message.Encode(&message.Piece{Kind: &message.Piece_Upload{Upload: &message.Upload{Blob: &message.BlobRef{Hash: make([]byte, 32), Size: 9}, Offset: 3}}}), uint8(0))
	f.Add([]byte{tagData, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, uint8(1))
	f.Add([]byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, cut uint8) {
		at := min(int(cut), len(b))
		for _, piece := range []mem.BufferSlice{{mem.SliceBuffer(b)}, {mem.SliceBuffer(b[:at]), mem.SliceBuffer(b[at:])}} {
			a := message.Assemble(1 << 10)
			upload, err := unpack(piece, func(r io.Reader, n int) error { return a.Take(r, n) })
			if err == nil && upload == nil && !bytes.HasSuffix(b, a.Blob().Bytes()) {
				t.Fatal("other bytes came out")
			}
		}
	})
}
