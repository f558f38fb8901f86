package journal

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/iota-train/iota/edge/journal/postgrestest"
)

func mustOpenPostgres(t interface {
	Helper()
	Fatal(...any)
}, url string) *Postgres {
	t.Helper()
	p, err := OpenPostgres(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// lapse lets the time pass in which a holder has to renew its lease.
func lapse(t testing.TB, url string) {
	t.Helper()
	postgrestest.Exec(t, url, `UPDATE iota_journal SET renewed = renewed - interval '1 hour'`)
}

// emptyPostgres removes the journal from a schema.
func emptyPostgres(t testing.TB, url string) {
	t.Helper()
	postgrestest.Exec(t, url, `DROP TABLE IF EXISTS iota_journal, iota_format, iota_genesis, iota_record, iota_snapshot`)
}

func TestLiveHolderIsNamedAndKeepsItsLease(t *testing.T) {
	target := postgrestest.URL(t)
	p := mustOpenPostgres(t, target)
	_, err := OpenPostgres(t.Context(), target)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), p.lease.String()) || !strings.Contains(err.Error(), self()) {
		t.Fatalf("second open: %v", err)
	}
	if err := p.Append(records(1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	next := mustOpenPostgres(t, target)
	defer next.Close()
	if next.lease.Number <= p.lease.Number {
		t.Errorf("lease %d follows lease %d", next.lease.Number, p.lease.Number)
	}
}

func TestWhoLostItsLeaseWritesNothing(t *testing.T) {
	target := postgrestest.URL(t)
	old := mustOpenPostgres(t, target)
	if err := errors.Join(old.Append(records(1, 3)), old.WriteSnapshot(Snapshot{Seq: 1}), old.WriteSnapshot(Snapshot{Seq: 2})); err != nil {
		t.Fatal(err)
	}
	old.stop() // it is paused
	<-old.kept
	lapse(t, target)
	heir := mustOpenPostgres(t, target)
	defer heir.Close()
	for what, err := range map[string]error{
		"append":   old.Append(records(4, 5)),
		"genesis":  old.WriteGenesis([]byte("run")),
		"snapshot": old.WriteSnapshot(Snapshot{Seq: 3}),
		"archive":  old.Archive(3),
	} {
		if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), heir.lease.String()) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := old.Close(); err != nil { // which leaves the heir's lease alone
		t.Fatal(err)
	}
	if err := heir.Append(records(4, 4)); err != nil {
		t.Fatal(err)
	}
	if n, err := readAll(heir, 1); n != 4 || err != nil {
		t.Fatalf("%d records: %v", n, err)
	}
	if s, _, err := heir.LatestSnapshot(); s.Seq != 2 || err != nil {
		t.Fatalf("snapshot %d: %v", s.Seq, err)
	}
	if b, err := heir.Genesis(); b != nil || err != nil {
		t.Fatalf("genesis %q: %v", b, err)
	}
}

func TestManyStandbysWriteOneAfterTheOther(t *testing.T) {
	target := postgrestest.URL(t) // where no table is yet
	const standbys, turns = 4, 3
	var tasks sync.WaitGroup
	quick := terms{renew: 50 * time.Millisecond, lapse: time.Minute, poll: time.Millisecond, stuck: time.Minute}
	numbers := make(chan uint64, standbys*turns)
	for range standbys {
		tasks.Go(func() {
			for range turns {
				p, err := openPostgres(t.Context(), target, quick, true, func(Lease) error { return nil })
				if err != nil {
					t.Error(err)
					return
				}
				numbers <- p.lease.Number
				if err := errors.Join(p.Append(records(p.LastSeq()+1, p.LastSeq()+5)), p.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	tasks.Wait()
	for want := uint64(1); want <= standbys*turns; want++ {
		if got := <-numbers; got != want {
			t.Errorf("lease %d, want %d", got, want)
		}
	}
	p := mustOpenPostgres(t, target)
	defer p.Close()
	if n, err := readAll(p, 1); n != 5*standbys*turns || err != nil {
		t.Fatalf("%d records: %v", n, err)
	}
}

func TestStandbyStopsWaitingWhenItIsTold(t *testing.T) {
	target := postgrestest.URL(t)
	p := mustOpenPostgres(t, target)
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen Lease
	_, err := AwaitPostgres(ctx, target, func(l Lease) {
		seen = l
		cancel()
	})
	if !errors.Is(err, context.Canceled) || seen.String() != p.lease.String() {
		t.Fatalf("saw %v: %v", seen, err)
	}
}

// A process that was stopped between the last messages of a statement leaves it uncommitted.
func TestStatementOfAStoppedHolderDoesNotKeepTheLease(t *testing.T) {
	target, ctx := postgrestest.URL(t), t.Context()
	p := mustOpenPostgres(t, target)
	die(p)
	lapse(t, target)
	conn, err := pgx.Connect(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(ctx, `BEGIN; UPDATE iota_journal SET last = last + 1`); err != nil {
		t.Fatal(err)
	}
	brief := usual
	brief.stuck = 100 * time.Millisecond
	heir, err := openPostgres(ctx, target, brief, true, func(Lease) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer heir.Close()
	if err := heir.Append(records(1, 1)); err != nil {
		t.Fatal(err)
	}
}

func TestTheSameBatchAgainIsStoredOnce(t *testing.T) {
	p := mustOpenPostgres(t, postgrestest.URL(t))
	defer p.Close()
	if err := p.Append(records(1, 5)); err != nil {
		t.Fatal(err)
	}
	p.last.Store(2) // what it would be if the answer had been lost
	if err := p.Append(records(3, 4)); !errors.Is(err, ErrDamaged) {
		t.Fatalf("a part: %v", err)
	}
	other := records(3, 5)
	other[1].Chain[5]++
	if err := p.Append(other); !errors.Is(err, ErrDamaged) {
		t.Fatalf("with another chain: %v", err)
	}
	if err := p.Append(records(3, 5)); err != nil {
		t.Fatal(err)
	}
	if n, err := readAll(p, 1); n != 5 || err != nil {
		t.Fatalf("%d records: %v", n, err)
	}
}

func TestWhatChangedInTheDatabaseIsReported(t *testing.T) {
	flip := func(table string) string {
		return fmt.Sprintf(`UPDATE %s SET sealed = set_byte(sealed, 20, get_byte(sealed, 20) # 4)`, table)
	}
	for name, c := range map[string]struct{ change, says string }{
		"nothing":         {`SELECT 1`, ""},
		"record":          {flip("iota_record") + ` WHERE seq = 7`, "record 7: checksum"},
		"missing record":  {`DELETE FROM iota_record WHERE seq = 7`, "record 7: missing"},
		"first record":    {`DELETE FROM iota_record WHERE seq = 1`, "record 1: missing"},
		"last record":     {`DELETE FROM iota_record WHERE seq = 220`, "record 220: "},
		"swapped":         {`UPDATE iota_record SET sealed = (SELECT sealed FROM iota_record WHERE seq = 8) WHERE seq = 7`, "record 7: checksum"},
		"number":          {`UPDATE iota_journal SET last = 3`, "record 220: "},
		"genesis":         {flip("iota_genesis"), "genesis: "},
		"snapshot":        {flip("iota_snapshot") + ` WHERE seq = 141`, "snapshot 141: "},
		"archived":        {flip("iota_snapshot") + ` WHERE seq = 41`, "snapshot 41: "},
		"row of journal":  {`DELETE FROM iota_journal`, "row of table iota_journal"},
		"newer format":    {`UPDATE iota_format SET version = 2`, "format is 2"},
		"other table":     {`DROP TABLE iota_format`, `"iota_journal" already exists`},
		"other structure": {`ALTER TABLE iota_format RENAME version TO release`, `"version" does not exist`},
	} {
		target := postgrestest.URL(t)
		p := mustOpenPostgres(t, target)
		fill(t, p)
		p.Close()
		postgrestest.Exec(t, target, c.change)
		err := examinePostgres(target)
		if c.says == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.says != "" && (err == nil || !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) ||
			!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// examinePostgres opens the journal and reads everything in it.
func examinePostgres(url string) error {
	p, err := OpenPostgres(context.Background(), url)
	if err != nil {
		return err
	}
	defer p.Close()
	return examineContent(p)
}

func TestErrorsOfTheServerAreOneLineWithoutThePassword(t *testing.T) {
	if os.Getenv("IOTA_POSTGRES") != "" {
		t.Skip("needs a server whose users it knows: unset IOTA_POSTGRES")
	}
	const secret = "hunter2/hunter3"
	good, err := url.Parse(postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(u *url.URL, q url.Values)) string {
		u, q := *good, good.Query()
		change(&u, q)
		u.RawQuery = q.Encode()
		return u.String()
	}
	for name, c := range map[string]struct{ url, says string }{
		"no URL":         {"host=a password=" + secret, "not the URL"},
		"unreadable":     {"postgres://user:" + secret + "@host:port/db", "not the URL"},
		"other scheme":   {"mysql://user:" + url.QueryEscape(secret) + "@host/db", "not the URL"},
		"wrong settings": {"postgres://user@host/db?sslmode=perhaps&password=" + secret, "sslmode"},
		"wrong password": {with(func(u *url.URL, _ url.Values) { u.User = url.UserPassword("iota", secret) }), "check user and password"},
		"no database":    {with(func(u *url.URL, _ url.Values) { u.Path = "/nosuch" }), "create it first"},
		"no schema":      {with(func(_ *url.URL, q url.Values) { q.Set("search_path", "nosuch") }), "CREATE SCHEMA"},
		"no socket":      {with(func(_ *url.URL, q url.Values) { q.Set("host", t.TempDir()) }), "no such file"},
		"no server":      {"postgres://user:" + url.QueryEscape(secret) + "@127.0.0.1:1/db", "refused"},
	} {
		_, err := OpenPostgres(t.Context(), c.url)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		t.Logf("%s: %v", name, err)
		for _, word := range []string{"hunter", postgrestest.Password} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("%s: shows a password: %v", name, err)
			}
		}
	}
}
