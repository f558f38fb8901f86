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
	_, _, first, err := readFrame(good[sector:]) // the bytes of the first batch
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
	for at := 0; at <= first; at += sector {
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
	start := sector
	for range 2 {
		_, _, size, err := readFrame(good[start:])
		if err != nil {
			t.Fatal(err)
		}
		start += size
	}
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

// A process may die after a transaction took the batches along, and more, and before or while it empties the file.
func TestBatchesLeftBehindByATransactionCountOnce(t *testing.T) {
	for name, damage := range map[string]func([]byte){
		"whole":            func([]byte) {},
		"partly cleared":   func(b []byte) { clear(b[len(b)/2/sector*sector:][:sector]) },
		"cleared in front": func(b []byte) { clear(b[sector : 2*sector]) },
	} {
		path, old := killed(t, 3)
		f := mustOpen(t, path)
		if err := f.Append([]Record{{Seq: 61, Event: make([]byte, walSize)}}); err != nil { // a transaction
			t.Fatal(err)
		}
		die(f)
		damage(old)
		for _, left := range [][]byte{old, append(sealNumber(f.wal.number), old[sumSize+8:]...)} { // or its number was written
			f = opened(t, path, left)
			if n := f.LastSeq(); n != 61 {
				t.Fatalf("%s: %d records", name, n)
			}
			die(f)
		}
		f = mustOpen(t, path)
		if err := f.Append([]Record{{Seq: 62}}); err != nil {
			t.Fatal(err)
		}
		die(f)
		f = mustOpen(t, path)
		if n := f.LastSeq(); n != 62 {
			t.Fatalf("%s: %d records", name, n)
		}
		die(f)
	}
}

// opened opens a journal whose write-ahead file is b and zero behind it.
func opened(t *testing.T, path string, b []byte) *File {
	t.Helper()
	file := make([]byte, walSize)
	copy(file, b)
	if err := os.WriteFile(path+".wal", file, 0o644); err != nil {
		t.Fatal(err)
	}
	return mustOpen(t, path)
}

func TestWriteAheadFileOfAnotherTimeIsReported(t *testing.T) {
	path, older := killed(t, 3)
	f := mustOpen(t, path)
	for range 2 {
		if err := f.WriteSnapshot(Snapshot{Seq: f.LastSeq()}); err != nil {
			t.Fatal(err)
		}
		if err := f.Append(records(f.last+1, f.last+1)); err != nil {
			t.Fatal(err)
		}
	}
	die(f)
	newest, err := os.ReadFile(path + ".wal")
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte) func() error { return func() error { return os.WriteFile(path+".wal", b, 0o644) } }
	for name, change := range map[string]func() error{
		"older": put(append(older, zeros[len(older):]...)), "zeros": put(zeros[:]), "empty": put(nil), "short": put(newest[:len(newest)-1]),
		"long": put(append(newest[:len(newest):len(newest)], 0)), "missing": func() error { return os.Remove(path + ".wal") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if err := put(newest)(); err != nil {
			t.Fatal(err)
		}
	}
	f = mustOpen(t, path)
	if n, err := readAll(f, 1); n != 62 || err != nil {
		t.Fatalf("%d records: %v", n, err)
	}
	f.Close()
	if _, err := os.Stat(path + ".wal"); !os.IsNotExist(err) {
		t.Errorf("a clean end leaves it: %v", err)
	}
	mustOpen(t, path).Close()
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
