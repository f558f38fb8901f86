package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// killed leaves a journal with batches of 20 records in its write-ahead file, and returns its path and the file's
// content up to the end of the last batch.
func killed(t *testing.T, batches int) (path string, b []byte) {
	path = filepath.Join(t.TempDir(), "j")
	f := mustOpen(t, path)
	for range batches {
		if err := f.Append(records(f.last+1, f.last+20)); err != nil {
			t.Fatal(err)
		}
	}
	end := f.wal.end
	die(f)
	b, err := os.ReadFile(path + ".wal")
	if err != nil || len(b) != walSize || !zero(b[end:]) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	return path, b[:end]
}

// reread opens a journal whose write-ahead file is b and zero behind it, and returns how many records it holds, all
// good.
func reread(t *testing.T, path string, b []byte) (uint64, error) {
	file := make([]byte, walSize)
	copy(file, b)
	if err := os.WriteFile(path+".wal", file, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		return 0, err
	}
	defer die(f)
	n, err := readAll(f, 1)
	if err == nil && n != f.LastSeq() {
		t.Fatalf("%d records, the last one is %d", n, f.LastSeq())
	}
	return n, err
}

func TestFlippedBitInTheWriteAheadFileIsReported(t *testing.T) {
	path, good := killed(t, 3)
	_, _, first, err := readFrame(good) // the bytes of the first batch
	if err != nil {
		t.Fatal(err)
	}
	last := len(good) - sector // the end of the last batch lies in it
	for at := 0; at < last; at += 31 {
		bad := append([]byte{}, good...)
		bad[at] ^= 1 << (at % 8)
		if n, err := reread(t, path, bad); err == nil && n != 60 {
			t.Fatalf("byte %d flipped: silently lost: %d records of 60", at, n)
		} else if err != nil && (!errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "\n")) {
			t.Fatalf("byte %d flipped: %v", at, err)
		}
	}
	for at := 0; at < int(first); at += sector {
		bad := append([]byte{}, good...)
		clear(bad[at : at+sector])
		if _, err := reread(t, path, bad); err == nil {
			t.Fatalf("sector at byte %d lost: silently", at)
		}
	}
	if err := os.Truncate(path+".wal", walSize-1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrDamaged) {
		t.Fatalf("cut: %v", err)
	}
}

// A power cut may leave any of the last batch's sectors unwritten; the batch was not acknowledged then.
func TestTornBatchIsDroppedAsAWhole(t *testing.T) {
	path, good := killed(t, 3)
	_, _, first, err := readFrame(good)
	if err != nil {
		t.Fatal(err)
	}
	_, _, second, err := readFrame(good[first:])
	if err != nil {
		t.Fatal(err)
	}
	start := int(first + second)
	for missing := start; missing < len(good); missing += sector {
		bad := append([]byte{}, good...)
		clear(bad[missing : missing+sector])
		if n, err := reread(t, path, bad); n != 40 || err != nil {
			t.Fatalf("sector at %d missing: %d records: %v", missing, n, err)
		}
		f := mustOpen(t, path)
		if err := f.Append(records(41, 42)); err != nil {
			t.Fatal(err)
		}
		die(f)
		f = mustOpen(t, path)
		if n, err := readAll(f, 1); n != 42 || err != nil {
			t.Fatalf("after it: %d records: %v", n, err)
		}
		die(f)
	}
}

func TestBatchesLeftBehindByATransactionCountOnce(t *testing.T) {
	path, good := killed(t, 3)
	f := mustOpen(t, path)
	if err := f.WriteSnapshot(Snapshot{Seq: 50}); err != nil {
		t.Fatal(err)
	}
	die(f)
	if n, err := reread(t, path, good); n != 60 || err != nil { // the process died before it emptied the file
		t.Fatalf("%d records: %v", n, err)
	}
	f = mustOpen(t, path)
	defer f.Close()
	if err := f.Append(records(61, 65)); err != nil {
		t.Fatal(err)
	}
	die(f)
	f = mustOpen(t, path)
	if n, err := readAll(f, 1); n != 65 || err != nil {
		t.Fatalf("%d records: %v", n, err)
	}
	if err := f.WriteSnapshot(Snapshot{Seq: 65}); err != nil {
		t.Fatal(err)
	}
	if err := f.Append(records(66, 66)); err != nil {
		t.Fatal(err)
	}
	die(f)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "record 1") {
		t.Fatalf("without the database: %v", err)
	}
}

func TestLargeBatchesPassTheWriteAheadFileBy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	f := mustOpen(t, path)
	for _, size := range []int{100, walSize, 200, walSize - 100, 300} {
		if err := f.Append([]Record{{Seq: f.LastSeq() + 1, Event: make([]byte, size)}}); err != nil {
			t.Fatal(err)
		}
	}
	die(f)
	f = mustOpen(t, path)
	defer f.Close()
	n := 0
	if err := f.Read(1, func(Record) error { n++; return nil }); err != nil || n != 5 {
		t.Fatalf("%d records: %v", n, err)
	}
}

// A process may die after a transaction took the batches along, and more, and before or while it empties the file.
func TestStaleBatchesNeverStandInTheWay(t *testing.T) {
	path, good := killed(t, 3)
	f := mustOpen(t, path)
	f.wal.full = true // the next batch is a transaction
	if err := f.Append(records(61, 70)); err != nil {
		t.Fatal(err)
	}
	die(f)
	torn := append([]byte{}, good...)
	clear(torn[len(torn)/2/sector*sector:][:sector])
	last := uint64(70)
	for what, left := range map[string][]byte{"whole": good, "partly cleared": torn, "cleared in front": append(make([]byte, sector), good[sector:]...)} {
		if n, err := reread(t, path, left); n != last || err != nil {
			t.Fatalf("%s: %d records: %v", what, n, err)
		}
		f := mustOpen(t, path)
		if err := f.Append(records(last+1, last+1)); err != nil {
			t.Fatal(err)
		}
		last++
		die(f)
		f = mustOpen(t, path)
		if n, err := readAll(f, 1); n != last || err != nil {
			t.Fatalf("%s: %d records of %d: %v", what, n, last, err)
		}
		if err := f.WriteSnapshot(Snapshot{Seq: last}); err != nil {
			t.Fatal(err)
		}
		die(f)
	}
}
