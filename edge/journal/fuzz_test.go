package journal

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzRecords decodes strange records, snapshots, frames and segments. Bodies get checksums that hold, so that what is
// behind those is reached: whoever can write the file can make them.
func FuzzRecords(f *testing.F) {
	r := Record{Seq: 1, Now: 5, Event: []byte("event")}
	f.Add(encodeRecord(r)[sumSize:], uint64(1))
	f.Add(encodeSnapshot(Snapshot{Seq: 1, State: []byte("{}")})[sumSize:], uint64(1))
	f.Add(frame(1, [][]byte{encodeRecord(r)})[frameHead:], uint64(1))
	f.Add([]byte{}, uint64(0))
	f.Fuzz(func(t *testing.T, body []byte, seq uint64) {
		for _, b := range [][]byte{body, seal('r', seq, body), seal('s', seq, body)} {
			if r, err := decodeRecord(seq, b); err == nil && !bytes.Equal(encodeRecord(r), b) {
				t.Fatal("a record comes back as another")
			}
			_, _ = decodeSnapshot(seq, b)
			_, _ = readRecord(bufio.NewReader(bytes.NewReader(b)), seq)
		}
		if first, list, _, err := readFrame(sealFrame(seq, body)); err == nil && list != nil && first != seq {
			t.Fatalf("a frame of record %d is one of %d", seq, first)
		}
		if len(body) >= frameHead {
			_, _, _, _ = readFrame(body)
		}
	})
}

// sealFrame is a frame around any body.
func sealFrame(first uint64, body []byte) []byte {
	b := frame(first, nil)[sumSize:]
	b[8], b[9], b[10], b[11] = byte(len(body)>>24), byte(len(body)>>16), byte(len(body)>>8), byte(len(body))
	sum := checksum('w', first, body)
	copy(b[12:], sum[:])
	return append(seal('h', 0, b), body...)
}

// FuzzPages checks strange files that pass for a database: an error, in bounded time.
func FuzzPages(f *testing.F) {
	path := filepath.Join(f.TempDir(), "journal.db")
	j, err := Open(path)
	if err != nil {
		f.Fatal(err)
	}
	if err := j.WriteGenesis([]byte("genesis")); err != nil {
		f.Fatal(err)
	}
	if err := j.Close(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), []byte{})
	f.Add(uint32(4096*2+8), []byte{2, 0, 255, 255})
	f.Add(uint32(4096+16), []byte{0xed})
	f.Fuzz(func(_ *testing.T, at uint32, change []byte) {
		b := bytes.Clone(whole)
		copy(b[int(at)%len(b):], change)
		_ = checkPages(bytes.NewReader(b), int64(len(b)))
	})
}
