//go:build unix

package journal

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain turns the test binary into a writer that never ends, when the environment names a journal.
func TestMain(m *testing.M) {
	if path := os.Getenv("JOURNAL_WRITER"); path != "" {
		fmt.Fprintln(os.Stderr, writeForever(path))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// writeForever prints the number of each record once it is durable.
func writeForever(path string) error {
	f, err := openAny(path)
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

// openAny opens the journal at a path or a URL.
func openAny(path string) (anyJournal, error) {
	if strings.HasPrefix(path, "postgres://") {
		return OpenPostgres(context.Background(), path)
	}
	return Open(path)
}

// startWriter starts a process that writes to the journal, and returns it with the lines that it prints and, once
// it has ended, what it complains of.
func startWriter(t *testing.T, path string) (*exec.Cmd, *bufio.Scanner, *bytes.Buffer) {
	t.Helper()
	writer, complaint := exec.Command(os.Args[0]), &bytes.Buffer{}
	writer.Env = append(os.Environ(), "JOURNAL_WRITER="+path)
	writer.Stderr = complaint
	out, err := writer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		writer.Process.Kill()
		writer.Wait()
	})
	return writer, bufio.NewScanner(out), complaint
}

func TestKilledWriterLosesNothingThatWasAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	for round := range 10 {
		writer, lines, _ := startWriter(t, path)
		acknowledged := uint64(0)
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
