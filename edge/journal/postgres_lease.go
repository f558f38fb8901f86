package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// sighting is a lease as it was seen in the database.
type sighting struct {
	Lease
	renewed *time.Time // nil when it was given back
	free    bool
}

func (s sighting) same(o sighting) bool {
	return s.Number == o.Number && s.renewed != nil && o.renewed != nil && s.renewed.Equal(*o.renewed)
}

// take gets the lease. It calls held when a holder has shown that it lives, by being new or by renewing the lease, and
// ends with its error. A standby waits out what befalls the server.
func (p *Postgres) take(ctx context.Context, t terms, standby bool, held func(Lease) error) error {
	var before sighting
	told := false // of the holder in before
	for {
		s, taken, err := p.claim(ctx, t)
		if taken {
			err = p.checkEnd(ctx)
		}
		switch {
		case err != nil:
			if ctx.Err() != nil || !standby || !passing(err) {
				return err
			}
		case taken:
			return nil
		default:
			told = told && s.Number == before.Number
			if before.renewed != nil && !told && !s.same(before) {
				if err := held(s.Lease); err != nil {
					return err
				}
				told = true
			}
			before = s
		}
		select {
		case <-time.After(t.poll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// claim takes the lease if it is free, and returns what it saw otherwise. The statement that takes it waits for one of
// the holder that is under way, and does nothing if that one renewed the lease.
func (p *Postgres) claim(ctx context.Context, t terms) (s sighting, taken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryFor+t.stuck)
	defer cancel()
	for {
		s, err = p.look(ctx, t.lapse)
		if err != nil || !s.free {
			return s, false, err
		}
		l, last := Lease{Holder: self()}, uint64(0)
		err = p.pool.QueryRow(ctx, `
			UPDATE iota_journal SET lease = lease + 1, holder = $1, since = clock_timestamp(), renewed = clock_timestamp()
			WHERE lease = $2 AND renewed IS NOT DISTINCT FROM $3 RETURNING lease, since, last`,
			l.Holder, s.Number, s.renewed).Scan(&l.Number, &l.Since, &last)
		var refused *pgconn.PgError
		switch {
		case err == nil:
			p.lease = l
			p.last.Store(last)
			return s, true, nil
		case errors.As(err, &refused) && refused.Code == lockTimeout:
			if err := p.unstick(ctx); err != nil {
				return s, false, err
			}
		case !errors.Is(err, pgx.ErrNoRows):
			return s, false, err
		}
	}
}

// look returns who holds the lease.
func (p *Postgres) look(ctx context.Context, lapse time.Duration) (s sighting, err error) {
	err = p.pool.QueryRow(ctx, `
		SELECT lease, holder, since, renewed, coalesce(renewed < clock_timestamp() - $1::interval, true) FROM iota_journal`,
		lapse).Scan(&s.Number, &s.Holder, &s.Since, &s.renewed, &s.free)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("the row of table iota_journal is missing: %w", ErrDamaged)
	}
	return s, err
}

// unstick ends the sessions that keep the row of the lease locked. The server needs nothing of a client from the moment
// that it begins a statement; but a process that was stopped between the last two messages of one has not committed it.
func (p *Postgres) unstick(ctx context.Context) error {
	_, err := p.pool.Exec(ctx, `
		SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'iota_journal'::regclass AND granted
		AND mode = 'RowExclusiveLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND pid <> pg_backend_pid()`)
	return err
}

// keep renews the lease until ctx ends or somebody else has it, which the next write reports.
func (p *Postgres) keep(ctx context.Context, t terms) {
	defer close(p.kept)
	ticker := time.NewTicker(t.renew)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		one, cancel := context.WithTimeout(ctx, t.lapse)
		tag, err := p.pool.Exec(one, `UPDATE iota_journal SET renewed = clock_timestamp() WHERE lease = $1`, p.lease.Number)
		cancel()
		if err == nil && tag.RowsAffected() == 0 {
			return
		}
	}
}

// release gives the lease back, if it is still ours.
func (p *Postgres) release() error {
	if p.lease.Number == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeFor)
	defer cancel()
	_, err := p.pool.Exec(ctx, `UPDATE iota_journal SET renewed = NULL WHERE lease = $1`, p.lease.Number)
	return err
}

// change runs a statement that writes only if the lease with number $1 is still the journal's, and returns the rows it
// wrote. It fails when the lease is not ours any longer.
func (p *Postgres) change(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := p.pool.Exec(ctx, statement, append([]any{p.lease.Number}, args...)...)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == uniqueViolation {
		err = nil // an earlier try of ours got through while this one waited for it
	}
	if n := tag.RowsAffected(); err != nil || n > 0 {
		return n, err
	}
	s, err := p.look(ctx, 0)
	if err == nil && s.Number != p.lease.Number {
		err = fmt.Errorf("the lease that this process had, number %d, was lost: %s has it: %w", p.lease.Number, s.Lease, ErrInUse)
	}
	return 0, err
}

// self names this process to others.
func self() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s process %d", strings.ToValidUTF8(host, "?"), os.Getpid())
}
