//go:build unix

package journal

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// TestMain turns the test binary into a writer that never ends, when the environment names a journal.
func TestMain(m *testing.M) {
	if path := os.Getenv("JOURNAL_WRITER"); path != "" {
		fmt.Fprintln(os.Stderr, writeForever(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForever prints the number of each record once it is durable.
func writeForever(path string) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	for {
		last := f.LastSeq()
		if err := f.Append(records(last+1, last+7)); err != nil {
			return err
		}
		fmt.Println(last + 7)
		if s, ok, err := f.LatestSnapshot(); err != nil {
			return err
		} else if !ok || s.Seq+30 < last {
			if err := f.WriteSnapshot(Snapshot{Seq: last, State: make([]byte, 5000)}); err != nil {
				return err
			}
			if err := f.Archive(last); err != nil {
				return err
			}
		}
	}
}

func TestKilledWriterLosesNothingThatWasAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	for round := range 10 {
		writer := exec.Command(os.Args[0])
		writer.Env = append(os.Environ(), "JOURNAL_WRITER="+path)
		writer.Stderr = os.Stderr
		out, err := writer.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		lines, acknowledged := bufio.NewScanner(out), uint64(0)
		for n := 0; n < 1+7*round && lines.Scan(); n++ {
			acknowledged, _ = strconv.ParseUint(lines.Text(), 10, 64)
		}
		writer.Process.Kill()
		writer.Wait()
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := readAll(f, 1); err != nil || n < acknowledged || n%7 != 0 || acknowledged == 0 {
			t.Fatalf("round %d: %d records, %d acknowledged: %v", round, n, acknowledged, err)
		}
		f.Close()
	}
}
