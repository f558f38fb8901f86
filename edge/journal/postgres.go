package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Postgres is a journal in a Postgres database, for a run whose orchestrator has a standby on another machine. Its
// methods are File's, and may be called by many goroutines.
//
// Whoever opens it holds the journal's lease, and whatever a Postgres writes is one statement that first compares the
// lease's number with its own. So a holder that was stopped, or cut off, and has lost the lease meanwhile never writes
// another byte: its methods answer ErrInUse. docs/decisions/0009 has the reasons.
//
// A database that is restarted, or a connection that breaks, is waited for, for patience; a statement whose answer was
// lost is sent again, and what it had written is recognised.
type Postgres struct {
	pool  *pgxpool.Pool
	name  string // of the database, without the password
	lease Lease
	stop  context.CancelFunc // ends keep
	kept  chan struct{}      // closed when keep has ended

	mu     sync.Mutex // held while records or snapshots change
	last   atomic.Uint64
	closed atomic.Bool
}

// Lease is the right to write a journal, which one process at a time holds.
type Lease struct {
	Number uint64 // grows with every holder
	Holder string
	Since  time.Time // by the database's clock
}

func (l Lease) String() string {
	return fmt.Sprintf("%s since %s", l.Holder, l.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// Times of a Postgres.
const (
	tryFor     = 10 * time.Second       // how long one statement may take
	patience   = 20 * time.Second       // how long a method tries again
	retryEvery = 100 * time.Millisecond // the pause before it does
	closeFor   = 2 * time.Second        // how long Close tries to give the lease back
)

// terms are the times of a lease. All but poll are measured by the database.
type terms struct {
	renew time.Duration // how often its holder renews it
	lapse time.Duration // how long after that it is free
	poll  time.Duration // how often who wants it looks
	stuck time.Duration // how long a statement of a stopped holder may keep others from it
}

// usual terms: who waits has the lease of a process that died after lapse + poll, 2.25 s, and two short statements.
var usual = terms{renew: 500 * time.Millisecond, lapse: 2 * time.Second, poll: 250 * time.Millisecond, stuck: 10 * time.Second}

// OpenPostgres opens the journal in the database at target, and makes an empty one where none is:
//
//	postgres://USER:PASSWORD@HOST:PORT/DATABASE?search_path=SCHEMA
//
// A schema holds one run; search_path may be left out. It takes the lease. ErrInUse names its holder; a holder that died
// has lapse to show a sign of life. Other errors are ErrForeign, ErrDamaged and the server's, in one line without the
// password.
func OpenPostgres(ctx context.Context, target string) (*Postgres, error) {
	return openPostgres(ctx, target, usual, false, func(l Lease) error {
		return fmt.Errorf("%s holds it: %w", l, ErrInUse)
	})
}

// AwaitPostgres is OpenPostgres for a standby: it waits until it gets the lease or ctx ends, whatever happens to the
// server meanwhile, and calls waiting, unless that is nil, with every other holder that it sees.
func AwaitPostgres(ctx context.Context, target string, waiting func(Lease)) (*Postgres, error) {
	return openPostgres(ctx, target, usual, true, func(l Lease) error {
		if waiting != nil {
			waiting(l)
		}
		return nil
	})
}

// openPostgres opens a journal with a lease of these terms. It calls held for every live holder that it finds, and
// waits while that returns no error.
func openPostgres(ctx context.Context, target string, t terms, standby bool, held func(Lease) error) (*Postgres, error) {
	config, err := configure(target, t)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	p := &Postgres{name: place(config), kept: make(chan struct{})}
	if p.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return nil, fmt.Errorf("open journal %s: %w", p.name, plain(err))
	}
	if err = p.migrate(ctx); err == nil {
		err = p.take(ctx, t, standby, held)
	}
	if err != nil {
		_ = p.release()
		p.pool.Close()
		return nil, fmt.Errorf("open journal %s: %w", p.name, plain(err))
	}
	keeping, stop := context.WithCancel(context.Background())
	p.stop = stop
	go p.keep(keeping, t)
	return p, nil
}

// checkEnd compares the records with the number that the journal says is the last.
func (p *Postgres) checkEnd(ctx context.Context) error {
	var there uint64
	if err := p.pool.QueryRow(ctx, `SELECT coalesce(max(seq), 0) FROM iota_record`).Scan(&there); err != nil {
		return err
	}
	if last := p.last.Load(); there != last {
		return fmt.Errorf("record %d: the last one that is there is %d: %w", max(last, there), there, ErrDamaged)
	}
	return nil
}

// Close gives the lease back, so that a standby takes it at once. Closing twice is no error.
func (p *Postgres) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Swap(true) {
		return nil
	}
	p.stop()
	<-p.kept
	err := p.release()
	p.pool.Close()
	if err != nil {
		return fmt.Errorf("give back the lease of journal %s: %w", p.name, plain(err))
	}
	return nil
}

// persist runs try until it succeeds, fails for good, or patience ends; again says that an earlier try may have done
// its work without our knowing.
func (p *Postgres) persist(what string, try func(ctx context.Context, again bool) error) error {
	all, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for again := false; ; again = true {
		if p.closed.Load() {
			return ErrClosed
		}
		ctx, cancel := context.WithTimeout(all, tryFor)
		err := try(ctx, again)
		cancel()
		if err == nil {
			return nil
		}
		if passing(err) {
			select {
			case <-time.After(retryEvery):
				continue
			case <-all.Done():
			}
		}
		if p.closed.Load() && !errors.Is(err, ErrInUse) {
			return ErrClosed
		}
		return fmt.Errorf("%s: journal %s: %w", what, p.name, plain(err))
	}
}
