//go:build unix

package journal

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/iota-train/iota/edge/journal/postgrestest"
)

// someLines returns the last of n numbers that a writer prints.
func someLines(t *testing.T, lines *bufio.Scanner, n int) (last uint64) {
	t.Helper()
	for range n {
		if !lines.Scan() {
			t.Fatal("the writer ended")
		}
		last, _ = strconv.ParseUint(lines.Text(), 10, 64)
	}
	return last
}

// standby is a process that waits for the lease, and what came of it.
type standby struct {
	p   *Postgres
	err error
}

// await returns a standby once it waits for the holder; it answers when it has the lease.
func await(t *testing.T, url string) <-chan standby {
	t.Helper()
	waits, done := make(chan Lease, 1), make(chan standby, 1)
	go func() {
		p, err := AwaitPostgres(t.Context(), url, func(l Lease) { waits <- l })
		done <- standby{p, err}
	}()
	select {
	case <-waits:
	case s := <-done:
		t.Fatalf("the standby did not wait: %v", s.err)
	}
	return done
}

func TestStandbyTakesOverFromAKilledWriter(t *testing.T) {
	target := postgrestest.URL(t)
	for round := range 3 {
		writer, lines, _ := startWriter(t, target)
		acknowledged := someLines(t, lines, 1)
		done := await(t, target)
		acknowledged = max(acknowledged, someLines(t, lines, 1+7*round))
		killed := time.Now()
		writer.Process.Kill()
		for lines.Scan() {
			acknowledged, _ = strconv.ParseUint(lines.Text(), 10, 64)
		}
		heir := <-done
		if heir.err != nil {
			t.Fatal(heir.err)
		}
		t.Logf("the standby has the lease %v after the kill", time.Since(killed))
		if n, err := readAll(heir.p, 1); err != nil || n < acknowledged || n%7 != 0 || n != heir.p.LastSeq() {
			t.Fatalf("round %d: %d records, %d acknowledged: %v", round, n, acknowledged, err)
		}
		heir.p.Close()
	}
}

func TestStoppedWriterThatGoesOnIsRefused(t *testing.T) {
	target := postgrestest.URL(t)
	writer, lines, complaint := startWriter(t, target)
	someLines(t, lines, 1)
	done := await(t, target)
	someLines(t, lines, 5)
	if err := writer.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	heir := <-done
	if heir.err != nil {
		t.Fatal(heir.err)
	}
	defer heir.p.Close()
	last := heir.p.LastSeq()
	if err := heir.p.Append(records(last+1, last+3)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	acknowledged := uint64(0)
	for lines.Scan() {
		acknowledged, _ = strconv.ParseUint(lines.Text(), 10, 64)
	}
	var ended *exec.ExitError
	if err := writer.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 1 {
		t.Errorf("the stopped writer: %v", err)
	}
	if text := strings.TrimSpace(complaint.String()); !strings.Contains(text, "was lost: "+heir.p.lease.String()) || strings.Contains(text, "\n") {
		t.Errorf("the stopped writer says: %s", text)
	}
	if acknowledged > last {
		t.Errorf("%d records were acknowledged, %d were there when the standby took over", acknowledged, last)
	}
	if n, err := readAll(heir.p, 1); n != last+3 || err != nil {
		t.Fatalf("%d records of %d: %v", n, last+3, err)
	}
}

func TestServerThatCrashesIsWaitedFor(t *testing.T) {
	server := postgrestest.Start(t, "fsync=on")
	p := mustOpenPostgres(t, server.URL())
	done := await(t, server.URL())
	const crashes = 2
	for range crashes {
		first := p.LastSeq() + 1
		if err := p.Append(records(first, first+9)); err != nil {
			t.Fatal(err)
		}
		server.Stop()
		appended := make(chan error)
		go func() { appended <- p.Append(records(first+10, first+19)) }()
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
		if err := <-appended; err != nil {
			// A standby may be first to find the server again after the time of the lease. Then nothing is lost either.
			if !errors.Is(err, ErrInUse) {
				t.Fatal(err)
			}
			heir := <-done
			if heir.err != nil {
				t.Fatal(heir.err)
			}
			p.Close()
			if p = heir.p; p.LastSeq() != first+9 {
				t.Fatalf("the standby finds %d records of %d", p.LastSeq(), first+9)
			}
			done = await(t, server.URL())
		}
		if n, err := readAll(p, 1); n != p.LastSeq() || err != nil {
			t.Fatalf("%d records of %d: %v", n, p.LastSeq(), err)
		}
	}
	p.Close()
	heir := <-done
	if heir.err != nil {
		t.Fatal(heir.err)
	}
	defer heir.p.Close()
	if n, err := readAll(heir.p, 1); n < 10*crashes || n != p.LastSeq() || err != nil {
		t.Fatalf("%d records of %d: %v", n, p.LastSeq(), err)
	}
}

func TestWhatWasWrittenThoughItsAnswerWasLostIsNotWrittenTwice(t *testing.T) {
	server := postgrestest.Start(t, "fsync=off")
	proxy := server.Proxy(t)
	p := mustOpenPostgres(t, proxy.URL)
	defer p.Close()
	steps := []func() error{
		func() error { return p.Append(records(1, 5)) },
		func() error { return p.WriteSnapshot(Snapshot{Seq: 5, State: []byte("state")}) },
		func() error { return p.WriteGenesis([]byte("run")) },
		func() error { return p.Append(records(6, 7)) },
	}
	tables := []string{"iota_record", "iota_snapshot", "iota_genesis", "iota_record"}
	direct, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close(context.Background())
	count := func(table string) (n int) {
		if err := direct.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i, step := range steps {
		before, done := count(tables[i]), make(chan error)
		proxy.Lose(true)
		go func() { done <- step() }()
		for count(tables[i]) == before { // it is written, and nobody knows
			select {
			case err := <-done:
				t.Fatalf("step %d ended: %v", i, err)
			default:
			}
		}
		proxy.Lose(false)
		if err := <-done; err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	if n, err := readAll(p, 1); n != 7 || err != nil {
		t.Fatalf("%d records: %v", n, err)
	}
	if s, _, err := p.LatestSnapshot(); string(s.State) != "state" || err != nil {
		t.Fatalf("snapshot %q: %v", s.State, err)
	}
}

// How fast events become durable, beside a File on the same disk.
func BenchmarkAppend(b *testing.B) {
	open := map[string]func(*testing.B) anyJournal{
		"file":     func(b *testing.B) anyJournal { return mustOpen(b, b.TempDir()+"/j") },
		"postgres": func(b *testing.B) anyJournal { return mustOpenPostgres(b, postgrestest.Start(b, "fsync=on").URL()) },
	}
	for _, kind := range []string{"file", "postgres"} {
		for _, size := range []uint64{1, 16, 256} {
			b.Run(kind+"/"+strconv.FormatUint(size, 10), func(b *testing.B) {
				j := open[kind](b)
				defer j.Close()
				for b.Loop() {
					b.StopTimer()
					batch := records(j.LastSeq()+1, j.LastSeq()+size)
					b.StartTimer()
					if err := j.Append(batch); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}
