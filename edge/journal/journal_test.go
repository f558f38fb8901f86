package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/iota-train/iota/edge/journal/postgrestest"
)

// anyJournal is what File, Memory and Postgres have in common.
type anyJournal interface {
	WriteGenesis([]byte) error
	Genesis() ([]byte, error)
	Append([]Record) error
	LastSeq() uint64
	Read(uint64, func(Record) error) error
	WriteSnapshot(Snapshot) error
	LatestSnapshot() (Snapshot, bool, error)
	Snapshots(func(Snapshot) error) error
	Archive(uint64) error
	Close() error
}

func mustOpen(t interface{ Fatal(...any) }, path string) *File {
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// record returns a record whose content follows from its number.
func record(seq uint64) Record {
	rng := rand.New(rand.NewPCG(seq, 1))
	r := Record{Seq: seq, Now: time.Duration(seq) * time.Second, Event: make([]byte, rng.IntN(300))}
	for i := range r.Event {
		r.Event[i] = byte(rng.Uint32())
	}
	r.Chain[0], r.Chain[31] = byte(seq), 0xee
	return r
}

func records(from, to uint64) (batch []Record) {
	for seq := from; seq <= to; seq++ {
		batch = append(batch, record(seq))
	}
	return batch
}

func equal(a, b Record) bool {
	return a.Seq == b.Seq && a.Now == b.Now && a.Chain == b.Chain && bytes.Equal(a.Event, b.Event)
}

// readAll returns how many records Read gives from seq on, each verified, and Read's error.
func readAll(j anyJournal, from uint64) (n uint64, err error) {
	err = j.Read(from, func(r Record) error {
		if want := record(max(from, 1) + n); !equal(r, want) {
			return fmt.Errorf("record %d differs from what was appended as %d", r.Seq, want.Seq)
		}
		n++
		return nil
	})
	return n, err
}

func TestJournalKeepsWhatWasAppended(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { checkJournal(t, NewMemory(), nil) })
	})
	t.Run("file", func(t *testing.T) {
		n := 0
		dir := t.TempDir()
		rapid.Check(t, func(t *rapid.T) {
			n++
			path := filepath.Join(dir, fmt.Sprintf("%d.db", n))
			checkJournal(t, mustOpen(t, path), func() anyJournal { return mustOpen(t, path) })
		})
	})
	t.Run("postgres", func(t *testing.T) {
		left, url := 30, postgrestest.URL(t) // each takes as long as three with a file
		rapid.Check(t, func(rt *rapid.T) {
			if left == 0 {
				return
			}
			good := false
			defer func() {
				if left--; !good {
					left = -1 // rapid tries smaller ones now
				}
			}()
			emptyPostgres(t, url)
			checkJournal(rt, mustOpenPostgres(rt, url), func() anyJournal {
				lapse(t, url)
				return mustOpenPostgres(rt, url)
			})
			good = true
		})
	})
}

func checkJournal(t *rapid.T, j anyJournal, reopen func() anyJournal) {
	var last uint64
	var snapshots []uint64
	defer func() { j.Close() }()
	actions := map[string]func(*rapid.T){
		"append": func(t *rapid.T) {
			n := rapid.Uint64Range(1, 20).Draw(t, "records")
			if err := j.Append(records(last+1, last+n)); err != nil {
				t.Fatal(err)
			}
			last += n
		},
		"append with a gap": func(t *rapid.T) {
			if err := j.Append(records(last+2, last+3)); err == nil {
				t.Fatal("accepted")
			}
		},
		"snapshot": func(t *rapid.T) {
			s := Snapshot{Seq: last, State: fmt.Appendf(nil, "state %d", last), StateHash: [32]byte{byte(last)}}
			err := j.WriteSnapshot(s)
			if n := len(snapshots); n > 0 && snapshots[n-1] == last {
				if err == nil {
					t.Fatal("a second snapshot of the same record was accepted")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			snapshots = append(snapshots, last)
		},
		"archive": func(t *rapid.T) {
			if err := j.Archive(rapid.Uint64Range(0, last+2).Draw(t, "before")); err != nil {
				t.Fatal(err)
			}
		},
		"read a part": func(t *rapid.T) {
			from := rapid.Uint64Range(1, last+1).Draw(t, "from")
			if n, err := readAll(j, from); err != nil || n != last+1-from {
				t.Fatalf("read %d records from %d on, last %d: %v", n, from, last, err)
			}
		},
		"": func(t *rapid.T) {
			s, ok, err := j.LatestSnapshot()
			if err != nil || ok != (len(snapshots) > 0) {
				t.Fatal(ok, err)
			}
			if ok && (s.Seq != snapshots[len(snapshots)-1] || string(s.State) != fmt.Sprintf("state %d", s.Seq)) {
				t.Fatalf("latest snapshot is %d %q", s.Seq, s.State)
			}
			i := 0
			if err := j.Snapshots(func(s Snapshot) error {
				if s.Seq != snapshots[i] || s.StateHash[0] != byte(s.Seq) {
					t.Fatalf("snapshot %d, want %d", s.Seq, snapshots[i])
				}
				i++
				return nil
			}); err != nil || i != len(snapshots) || j.LastSeq() != last {
				t.Fatalf("%d snapshots of %d, last record %d of %d: %v", i, len(snapshots), j.LastSeq(), last, err)
			}
		},
	}
	if reopen != nil {
		actions["reopen"] = func(*rapid.T) {
			j.Close()
			j = reopen()
		}
		actions["die and reopen"] = func(*rapid.T) {
			die(j)
			j = reopen()
		}
	}
	t.Repeat(actions)
	if n, err := readAll(j, 0); err != nil || n != last {
		t.Fatalf("%d records of %d: %v", n, last, err)
	}
}

// die lets go of a journal as the end of its process does.
func die(j anyJournal) {
	switch j := j.(type) {
	case *File:
		j.wal.close()
		j.db.Close()
	case *Postgres:
		j.stop()
		<-j.kept
		j.pool.Close()
	}
}

// everyJournal runs a test with an empty journal of each kind.
func everyJournal(t *testing.T, test func(*testing.T, anyJournal)) {
	t.Run("memory", func(t *testing.T) { test(t, NewMemory()) })
	t.Run("file", func(t *testing.T) { test(t, mustOpen(t, filepath.Join(t.TempDir(), "j"))) })
	t.Run("postgres", func(t *testing.T) { test(t, mustOpenPostgres(t, postgrestest.URL(t))) })
}

func TestGenesisIsWrittenOnce(t *testing.T) {
	everyJournal(t, func(t *testing.T, j anyJournal) {
		defer j.Close()
		if b, err := j.Genesis(); b != nil || err != nil {
			t.Fatalf("%q %v", b, err)
		}
		if err := j.WriteGenesis([]byte("run a")); err != nil {
			t.Fatal(err)
		}
		if err := j.WriteGenesis([]byte("run a")); err != nil {
			t.Fatal(err)
		}
		if err := j.WriteGenesis([]byte("run b")); err == nil {
			t.Fatal("another genesis was accepted")
		}
		if b, err := j.Genesis(); string(b) != "run a" || err != nil {
			t.Fatalf("%q %v", b, err)
		}
	})
}

func TestClosedJournalAnswersErrClosed(t *testing.T) {
	everyJournal(t, func(t *testing.T, j anyJournal) {
		j.Close()
		_, genesis := j.Genesis()
		_, _, latest := j.LatestSnapshot()
		for what, err := range map[string]error{
			"write genesis": j.WriteGenesis(nil),
			"genesis":       genesis,
			"append":        j.Append(records(1, 1)),
			"read":          j.Read(1, nil),
			"snapshot":      j.WriteSnapshot(Snapshot{}),
			"latest":        latest,
			"snapshots":     j.Snapshots(nil),
			"archive":       j.Archive(1),
			"close":         errors.Join(ErrClosed, j.Close()),
		} {
			if !errors.Is(err, ErrClosed) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func TestOnlyOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	f := mustOpen(t, path)
	if _, err := Open(path); !errors.Is(err, ErrInUse) {
		t.Fatalf("second open: %v", err)
	}
	f.Close()
	mustOpen(t, path).Close()
}

func TestForeignFilesAreRefusedAndLeftAlone(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"empty": "", "text": "once upon a time", "long text": strings.Repeat("not a journal ", 4000), "zeros": string(make([]byte, 65536)),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path)
		if !errors.Is(err, ErrForeign) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(path); string(after) != content {
			t.Errorf("%s was changed", name)
		}
	}
	if _, err := Open(dir); err == nil {
		t.Error("a folder was opened")
	}
	if _, err := Open(filepath.Join(dir, "no", "such", "folder")); err == nil {
		t.Error("a path without folder was opened")
	}
}

func TestArchiveBoundsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	f := mustOpen(t, path)
	defer f.Close()
	const rounds, state = 240, 20000
	for round := range uint64(rounds) {
		first := round*100 + 1
		if err := f.Append(records(first, first+99)); err != nil {
			t.Fatal(err)
		}
		if err := f.WriteSnapshot(Snapshot{Seq: first + 99, State: make([]byte, state)}); err != nil {
			t.Fatal(err)
		}
		if err := f.Archive(first + 99); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if written := int64(rounds * (state + 100*150)); info.Size() > written/6 {
		t.Errorf("the file has %d bytes after %d were written", info.Size(), written)
	}
	if n, err := readAll(f, 1); n != 100*rounds || err != nil {
		t.Fatalf("%d records: %v", n, err)
	}
}

func TestInterruptedArchiveLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	f := mustOpen(t, path)
	if err := f.Append(records(1, 100)); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteSnapshot(Snapshot{Seq: 100}); err != nil {
		t.Fatal(err)
	}
	if err := f.writeSegment(1, 60); err != nil { // and the process dies
		t.Fatal(err)
	}
	orphan, half := f.segmentPath(1, 60), f.segmentPath(1, 80)+".new"
	os.WriteFile(half, []byte("half"), 0o644)
	f.Close()
	f = mustOpen(t, path)
	defer f.Close()
	for _, name := range []string{orphan, half} {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	if n, err := readAll(f, 1); n != 100 || err != nil {
		t.Fatalf("%d records: %v", n, err)
	}
}

func TestReadersMayAppend(t *testing.T) {
	everyJournal(t, func(t *testing.T, j anyJournal) {
		defer j.Close()
		if err := j.Append(records(1, 3)); err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		err := j.Read(1, func(r Record) error {
			if n++; n <= 3 {
				return j.Append(records(j.LastSeq()+1, j.LastSeq()+1))
			}
			return nil
		})
		if n != 6 || err != nil {
			t.Fatalf("%d records: %v", n, err)
		}
	})
}

func TestOpenWaitsForAHolderThatStillGrowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	holder := mustOpen(t, path)
	opened := make(chan error)
	go func() {
		f, err := Open(path)
		if err == nil {
			f.Close()
		}
		opened <- err
	}()
	err := holder.Append([]Record{{Seq: 1, Event: make([]byte, 4<<20)}}) // more than fits beside the database
	if e := holder.Close(); err != nil || e != nil {
		t.Fatal(err, e)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}
