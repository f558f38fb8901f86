// Package journal is the append-only log of a run: numbered records, snapshots of the state after some of them, and one
// genesis blob. It stores bytes and verifies checksums; what the bytes mean, and how the chain is computed, is its
// caller's affair. File keeps the log on disk (bbolt, with the newest records in a write-ahead file and the oldest in
// compressed segments beside it), Postgres keeps it in a database, from where a standby can take over, Memory keeps it in
// this process; all have the same methods.
package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/zeebo/blake3"
)

// Record is one event. Seq counts from 1 without gaps.
type Record struct {
	Seq   uint64
	Now   time.Duration // run time
	Event []byte
	Chain [32]byte // the caller's hash over everything up to and including this record
}

// Snapshot is the state after record Seq. State is nil once the snapshot was archived; its hash stays, so that a replay
// from genesis can still be compared with it.
type Snapshot struct {
	Seq       uint64
	State     []byte
	StateHash [32]byte
}

// What Open, Read and the other readers' callers branch on.
var (
	// ErrInUse says that another process, or another File, holds the journal, or has taken it over.
	ErrInUse = errors.New("journal in use by another process")
	// ErrForeign says that the file, or what the database has under our names, is no journal, or one of a newer format.
	ErrForeign = errors.New("not a journal")
	// ErrDamaged says that stored bytes changed or vanished; the error names the damaged record where it is known.
	ErrDamaged = errors.New("journal damaged")
	// ErrClosed says that the journal was closed.
	ErrClosed = errors.New("journal closed")
)

// MaxEvent bounds the bytes of one event.
const MaxEvent = 64 << 20

const (
	sumSize    = 16
	recordHead = sumSize + 8 + 32
)

// seal prefixes body with a checksum over kind, seq and body. Bodies of another kind or place do not verify.
func seal(kind byte, seq uint64, body []byte) []byte {
	b := make([]byte, sumSize, sumSize+len(body))
	sum := checksum(kind, seq, body)
	copy(b, sum[:])
	return append(b, body...)
}

// unseal returns the body in b, which it shares, when its checksum fits.
func unseal(kind byte, seq uint64, b []byte) ([]byte, bool) {
	if len(b) < sumSize {
		return nil, false
	}
	sum := checksum(kind, seq, b[sumSize:])
	return b[sumSize:], bytes.Equal(sum[:], b[:sumSize])
}

func checksum(kind byte, seq uint64, body []byte) (sum [sumSize]byte) {
	h := blake3.New()
	var head [9]byte
	head[0] = kind
	binary.BigEndian.PutUint64(head[1:], seq)
	h.Write(head[:])
	h.Write(body)
	copy(sum[:], h.Sum(nil))
	return sum
}

func encodeRecord(r Record) []byte {
	body := make([]byte, 8, recordHead-sumSize+len(r.Event))
	binary.BigEndian.PutUint64(body, uint64(r.Now))
	body = append(body, r.Chain[:]...)
	return seal('r', r.Seq, append(body, r.Event...))
}

// decodeRecord returns record seq from its stored form. The event is a copy.
func decodeRecord(seq uint64, b []byte) (Record, error) {
	body, ok := unseal('r', seq, b)
	if !ok || len(b) < recordHead {
		return Record{}, fmt.Errorf("record %d: checksum differs: %w", seq, ErrDamaged)
	}
	r := Record{Seq: seq, Now: time.Duration(binary.BigEndian.Uint64(body)), Event: bytes.Clone(body[40:])}
	copy(r.Chain[:], body[8:])
	return r, nil
}

func encodeSnapshot(s Snapshot) []byte {
	body := make([]byte, 1, 33+len(s.State))
	if s.State != nil {
		body[0] = 1
	}
	body = append(body, s.StateHash[:]...)
	return seal('s', s.Seq, append(body, s.State...))
}

func decodeSnapshot(seq uint64, b []byte) (Snapshot, error) {
	body, ok := unseal('s', seq, b)
	if !ok || len(body) < 33 {
		return Snapshot{}, fmt.Errorf("snapshot %d: checksum differs: %w", seq, ErrDamaged)
	}
	s := Snapshot{Seq: seq}
	if body[0] == 1 {
		s.State = append([]byte{}, body[33:]...)
	}
	copy(s.StateHash[:], body[1:])
	return s, nil
}

// checkBatch returns an error unless the batch continues a journal whose last record is last.
func checkBatch(last uint64, batch []Record) error {
	for i, r := range batch {
		if r.Seq != last+1+uint64(i) {
			return fmt.Errorf("append record %d: the next one is %d", r.Seq, last+1+uint64(i))
		}
		if len(r.Event) > MaxEvent {
			return fmt.Errorf("append record %d: event of %d bytes exceeds %d", r.Seq, len(r.Event), MaxEvent)
		}
	}
	return nil
}
