package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
)

// mine is how every write but Append begins: it locks the row of the lease, if the lease is ours.
const mine = `WITH mine AS (UPDATE iota_journal SET renewed = clock_timestamp() WHERE lease = $1 RETURNING one) `

// WriteGenesis is File.WriteGenesis.
func (p *Postgres) WriteGenesis(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.persist("write genesis", func(ctx context.Context, _ bool) error {
		n, err := p.change(ctx, mine+`INSERT INTO iota_genesis SELECT one, $2 FROM mine
			WHERE NOT EXISTS (SELECT FROM iota_genesis)`, seal('g', 0, b))
		if err != nil || n > 0 {
			return err
		}
		old, err := p.genesis(ctx)
		if err == nil && !bytes.Equal(old, b) {
			err = errOtherGenesis
		}
		return err
	})
}

// Genesis is File.Genesis.
func (p *Postgres) Genesis() (b []byte, err error) {
	err = p.persist("read genesis", func(ctx context.Context, _ bool) (err error) {
		b, err = p.genesis(ctx)
		return err
	})
	return b, err
}

func (p *Postgres) genesis(ctx context.Context) ([]byte, error) {
	var sealed []byte
	err := p.pool.QueryRow(ctx, `SELECT sealed FROM iota_genesis`).Scan(&sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	body, ok := unseal('g', 0, sealed)
	if !ok {
		return nil, fmt.Errorf("genesis: checksum differs: %w", ErrDamaged)
	}
	return body, nil
}

// Append makes the batch durable as a whole. The records must continue the journal's sequence, in the database too. On
// an error all or none of them are there, which the next to open the journal finds out; appending the same again is no
// error.
func (p *Postgres) Append(batch []Record) error {
	if len(batch) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return ErrClosed
	}
	before := p.last.Load()
	if err := checkBatch(before, batch); err != nil {
		return err
	}
	sealed := make([][]byte, len(batch))
	for i, r := range batch {
		sealed[i] = encodeRecord(r)
	}
	last := batch[len(batch)-1].Seq
	err := p.persist(fmt.Sprintf("append records %d to %d", before+1, last), func(ctx context.Context, _ bool) error {
		n, err := p.change(ctx, `
			WITH mine AS (UPDATE iota_journal SET last = $3, renewed = clock_timestamp() WHERE lease = $1 AND last = $2 RETURNING one)
			INSERT INTO iota_record SELECT $2 + r.place, r.sealed FROM mine, unnest($4::bytea[]) WITH ORDINALITY AS r (sealed, place)`,
			before, last, sealed)
		if err != nil || n == int64(len(batch)) {
			return err
		}
		return p.confirm(ctx, before, sealed)
	})
	if err == nil {
		p.last.Store(last)
	}
	return err
}

// confirm returns no error if the records after before are these, and no others: an earlier try of ours wrote them.
func (p *Postgres) confirm(ctx context.Context, before uint64, sealed [][]byte) error {
	var last, equal uint64
	err := p.pool.QueryRow(ctx, `
		SELECT last, (SELECT count(*) FROM unnest($2::bytea[]) WITH ORDINALITY AS r (sealed, place)
			JOIN iota_record s ON s.seq = $1 + r.place AND s.sealed = r.sealed) FROM iota_journal`, before, sealed).Scan(&last, &equal)
	if err == nil && (last != before+uint64(len(sealed)) || equal != uint64(len(sealed))) {
		err = fmt.Errorf("its last record is %d, written by nobody else, and was %d: %w", last, before, ErrDamaged)
	}
	return err
}

// LastSeq is File.LastSeq.
func (p *Postgres) LastSeq() uint64 { return p.last.Load() }

// Read is File.Read.
func (p *Postgres) Read(from uint64, fn func(Record) error) error {
	for next := max(from, 1); ; {
		var chunk []Record
		var damage error // behind the chunk
		last := p.last.Load()
		err := p.persist(fmt.Sprintf("read from record %d", next), func(ctx context.Context, _ bool) (err error) {
			chunk, damage = nil, nil
			if next <= last {
				chunk, damage, err = p.readSome(ctx, next, last)
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range chunk {
			if err := fn(r); err != nil {
				return err
			}
		}
		if damage != nil {
			return fmt.Errorf("read journal %s: %w", p.name, damage)
		}
		if next > last {
			return nil
		}
		next += uint64(len(chunk))
	}
}

// readSome returns records next and following as far as last, about readChunk bytes of them, but one at least, or what
// is wrong with the one that follows.
func (p *Postgres) readSome(ctx context.Context, next, last uint64) (chunk []Record, damage, err error) {
	const most = 10_000 // records
	rows, err := p.pool.Query(ctx, `
		SELECT seq, sealed FROM (SELECT seq, sealed, octet_length(sealed) AS size,
			sum(octet_length(sealed)) OVER (ORDER BY seq) AS upto FROM iota_record WHERE seq BETWEEN $1 AND $2) r
		WHERE upto - size < $3 ORDER BY seq`, next, min(last, next+most-1), readChunk)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for want := next; rows.Next(); want++ {
		var seq uint64
		var sealed []byte
		if err := rows.Scan(&seq, &sealed); err != nil {
			return nil, nil, err
		}
		if seq != want {
			return chunk, fmt.Errorf("record %d: missing: %w", want, ErrDamaged), nil
		}
		r, damage := decodeRecord(seq, sealed)
		if damage != nil {
			return chunk, damage, nil
		}
		chunk = append(chunk, r)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, err
	}
	if len(chunk) == 0 {
		damage = fmt.Errorf("record %d: missing: %w", next, ErrDamaged)
	}
	return chunk, damage, nil
}

// WriteSnapshot is File.WriteSnapshot.
func (p *Postgres) WriteSnapshot(s Snapshot) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := p.last.Load(); s.Seq > last {
		return fmt.Errorf("snapshot %d: the last record is %d", s.Seq, last)
	}
	if s.State == nil {
		s.State = []byte{}
	}
	sealed := encodeSnapshot(s)
	return p.persist(fmt.Sprintf("write snapshot %d", s.Seq), func(ctx context.Context, again bool) error {
		n, err := p.change(ctx, mine+`INSERT INTO iota_snapshot SELECT $2, $3 FROM mine
			WHERE NOT EXISTS (SELECT FROM iota_snapshot WHERE seq >= $2)`, s.Seq, sealed)
		if err != nil || n > 0 {
			return err
		}
		newest, _, err := p.snapshot(ctx, newestFirst, math.MaxInt64)
		if again && newest.Seq == s.Seq && bytes.Equal(encodeSnapshot(newest), sealed) {
			return nil // an earlier try got through
		}
		if err == nil {
			err = fmt.Errorf("there is a later one, %d", newest.Seq)
		}
		return err
	})
}

// LatestSnapshot is File.LatestSnapshot.
func (p *Postgres) LatestSnapshot() (s Snapshot, ok bool, err error) {
	err = p.persist("read the latest snapshot", func(ctx context.Context, _ bool) (err error) {
		s, ok, err = p.snapshot(ctx, newestFirst, math.MaxInt64)
		return err
	})
	return s, ok, err
}

// Snapshots is File.Snapshots.
func (p *Postgres) Snapshots(fn func(Snapshot) error) error {
	for next := uint64(0); ; {
		var s Snapshot
		var ok bool
		err := p.persist(fmt.Sprintf("read from snapshot %d", next), func(ctx context.Context, _ bool) (err error) {
			s, ok, err = p.snapshot(ctx, oldestFirst, next)
			return err
		})
		if err != nil || !ok {
			return err
		}
		if err := fn(s); err != nil {
			return err
		}
		next = s.Seq + 1
	}
}

const (
	oldestFirst = `WHERE seq >= $1 ORDER BY seq LIMIT 1`
	newestFirst = `WHERE seq <= $1 ORDER BY seq DESC LIMIT 1`
)

// snapshot returns the snapshot that is first by this order, and false when there is none.
func (p *Postgres) snapshot(ctx context.Context, order string, seq uint64) (Snapshot, bool, error) {
	var sealed []byte
	err := p.pool.QueryRow(ctx, `SELECT seq, sealed FROM iota_snapshot `+order, seq).Scan(&seq, &sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return Snapshot{}, false, nil
	}
	if err != nil {
		return Snapshot{}, false, err
	}
	s, err := decodeSnapshot(seq, sealed)
	return s, err == nil, err
}

// Archive takes the state from snapshots older than before, save the newest. The records stay where they are: unlike in
// a File, they are in nobody's way there, and an archived one would be in the same database.
func (p *Postgres) Archive(before uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.persist("archive", func(ctx context.Context, _ bool) error {
		for {
			s, ok, err := p.snapshot(ctx, `WHERE seq < $1 AND seq < (SELECT max(seq) FROM iota_snapshot)
				AND get_byte(sealed, 16) = 1 ORDER BY seq LIMIT 1`, before)
			if err != nil || !ok {
				return err
			}
			s.State = nil
			if _, err := p.change(ctx, mine+`UPDATE iota_snapshot SET sealed = $3 FROM mine WHERE seq = $2`, s.Seq, encodeSnapshot(s)); err != nil {
				return err
			}
		}
	})
}
