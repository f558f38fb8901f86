package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// written makes a journal with records, snapshots and a segment, and returns its path.
func written(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "j")
	f := mustOpen(t, path)
	defer f.Close()
	fill(t, f)
	return path
}

// fill writes 220 records, two snapshots and a genesis, and archives what is older than record 100.
func fill(t *testing.T, j anyJournal) {
	t.Helper()
	if err := j.WriteGenesis([]byte("the run")); err != nil {
		t.Fatal(err)
	}
	for first := uint64(1); first <= 201; first += 20 {
		if err := j.Append(records(first, first+19)); err != nil {
			t.Fatal(err)
		}
		if first == 41 || first == 141 {
			if err := j.WriteSnapshot(Snapshot{Seq: first, State: []byte(strings.Repeat("state", 2000))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := j.Archive(100); err != nil {
		t.Fatal(err)
	}
}

// examine opens the journal and reads everything in it: the first error, or nil when all is as written.
func examine(path string) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return examineContent(f)
}

// examineContent reads what fill wrote.
func examineContent(f anyJournal) error {
	if b, err := f.Genesis(); err != nil || string(b) != "the run" {
		return fmt.Errorf("genesis %q: %w", b, err)
	}
	if n, err := readAll(f, 1); err != nil {
		return err
	} else if n != 220 {
		return fmt.Errorf("silently lost: %d records of 220", n)
	}
	s, ok, err := f.LatestSnapshot()
	if err != nil {
		return err
	}
	if !ok || s.Seq != 141 || len(s.State) != 10000 {
		return fmt.Errorf("silently lost: snapshot %d", s.Seq)
	}
	n := 0
	if err := f.Snapshots(func(Snapshot) error { n++; return nil }); err != nil {
		return err
	} else if n != 2 {
		return fmt.Errorf("silently lost: %d snapshots of 2", n)
	}
	return nil
}

func TestEveryFlippedBitIsHarmlessOrReported(t *testing.T) {
	path := written(t)
	if err := examine(path); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var named, reported, harmless int
	for at := 0; at < len(good); at += 1 + stride(at) {
		bad := append([]byte{}, good...)
		bad[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		err := examine(path)
		switch {
		case err == nil:
			harmless++
		case !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign), strings.Contains(err.Error(), "\n"):
			t.Fatalf("byte %d flipped: %v", at, err)
		case strings.Contains(err.Error(), "record "):
			named++
		default:
			reported++
		}
	}
	t.Logf("%d name a record, %d are reported otherwise, %d are harmless", named, reported, harmless)
	if named == 0 || reported == 0 {
		t.Error("the flips did not reach records and structure")
	}
}

// stride visits every byte in use of the two header pages, every other of the first bytes of each page, and a sample
// elsewhere.
func stride(at int) int {
	switch in := at % 4096; {
	case at < 2*4096 && in < 80:
		return 0
	case in < 96:
		return 1
	}
	return 210
}

func TestCutFileIsReported(t *testing.T) {
	path := written(t)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := len(good) - 1; size > 0; size -= 3000 {
		if err := os.WriteFile(path, good[:size], 0o644); err != nil {
			t.Fatal(err)
		}
		if err := examine(path); err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) {
			t.Fatalf("cut to %d: %v", size, err)
		}
	}
}

func TestDamagedSegmentIsReported(t *testing.T) {
	path := written(t)
	segments, _ := filepath.Glob(path + ".*.zst")
	if len(segments) != 1 {
		t.Fatalf("segments: %v", segments)
	}
	good, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(good); at += 1 + at/200 {
		bad := append([]byte{}, good...)
		bad[at] ^= 1 << (at % 8)
		os.WriteFile(segments[0], bad, 0o644)
		if err := examine(path); err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d flipped: %v", at, err)
		}
		os.WriteFile(segments[0], good[:at], 0o644)
		if err := examine(path); !errors.Is(err, ErrDamaged) && at < len(good)-8 {
			t.Fatalf("cut to %d: %v", at, err)
		}
	}
	os.Remove(segments[0])
	if err := examine(path); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "record 1") {
		t.Fatalf("removed: %v", err)
	}
}

func TestChecksumSeesEveryFlippedBitAndTheWrongPlace(t *testing.T) {
	good := encodeRecord(record(7))
	for i := range 8 * len(good) {
		bad := append([]byte{}, good...)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := decodeRecord(7, bad); !errors.Is(err, ErrDamaged) {
			t.Fatalf("bit %d: %v", i, err)
		}
	}
	for n := range good {
		if _, err := decodeRecord(7, good[:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("first %d bytes: %v", n, err)
		}
	}
	if _, err := decodeRecord(8, good); !errors.Is(err, ErrDamaged) {
		t.Fatalf("in the place of record 8: %v", err)
	}
}
