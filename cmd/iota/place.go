package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/store"
)

// place says where an orchestrator keeps a run: in its folder, and where these name one, in a database and in a bucket.
type place struct {
	journal string // postgres://...
	store   string // s3://ENDPOINT/BUCKET/PREFIX
	room    string // bytes for blobs, as in 200GB
	standby bool
}

// check refuses what the command line alone shows to be wrong.
func (p *place) check() error {
	if p.journal != "" && !strings.HasPrefix(p.journal, "postgres://") && !strings.HasPrefix(p.journal, "postgresql://") {
		return usagef("--journal %q: want postgres://USER@HOST/DATABASE, or leave it out to keep the journal in --dir", p.journal)
	}
	if p.store != "" {
		if _, err := bucketOf(p.store); err != nil {
			return usageError{err}
		}
	}
	_, err := bytesIn(p.room)
	return err
}

// open opens the run's folder. A standby waits for its turn, which comes when the process that has the journal ends.
func (p *place) open(ctx context.Context, dir string, log *slog.Logger) (*folder, error) {
	f := &folder{path: dir}
	if err := p.openAll(ctx, f, log); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (p *place) openAll(ctx context.Context, f *folder, log *slog.Logger) (err error) {
	if p.journal == "" {
		err = p.openFile(ctx, f, log)
	} else {
		err = p.openDatabase(ctx, f, log)
	}
	if err != nil {
		return err
	}
	room, err := bytesIn(p.room)
	if err != nil {
		return err
	}
	if p.store != "" {
		c, err := bucketOf(p.store)
		if err != nil {
			return err
		}
		c.Capacity = room
		bucket, err := store.OpenS3(ctx, c)
		if err != nil {
			return err
		}
		f.blobs, f.closers = bucket, append(f.closers, bucket.Close)
		return nil
	}
	d, err := store.OpenDir(filepath.Join(f.path, "blobs"))
	if err != nil {
		return err
	}
	if room > 0 {
		d.Limit(room)
	}
	f.blobs = d
	return nil
}

// openFile opens the journal of the folder.
func (p *place) openFile(ctx context.Context, f *folder, log *slog.Logger) error {
	if err := usable(f.path); err != nil {
		return err
	}
	if err := os.MkdirAll(f.path, 0o755); err != nil {
		return fmt.Errorf("%w: choose another --dir", err)
	}
	for told := false; ; told = true {
		j, err := journal.Open(filepath.Join(f.path, journalName))
		if err == nil {
			f.journal, f.closers = j, append(f.closers, func() { j.Close() })
			return nil
		}
		if !p.standby || !errors.Is(err, journal.ErrInUse) {
			return err
		}
		if !told {
			log.Info("standing by", "while", err)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// openDatabase opens a journal in Postgres. The folder keeps the key and the ledger.
func (p *place) openDatabase(ctx context.Context, f *folder, log *slog.Logger) error {
	if _, err := os.Stat(filepath.Join(f.path, journalName)); err == nil {
		return fmt.Errorf("%s holds a journal itself: leave --journal out, or use another --dir", f.path)
	}
	unlock, err := node.LockFolder(f.path)
	if err != nil {
		return err
	}
	f.closers = append(f.closers, unlock)
	var j *journal.Postgres
	if p.standby {
		told := ""
		j, err = journal.AwaitPostgres(ctx, p.journal, func(l journal.Lease) {
			if text := l.String(); text != told {
				told = text
				log.Info("standing by", "while", text)
			}
		})
	} else {
		j, err = journal.OpenPostgres(ctx, p.journal)
	}
	if err != nil {
		return err
	}
	f.journal, f.closers = j, append(f.closers, func() { j.Close() })
	return nil
}

// bucketOf reads s3://ENDPOINT/BUCKET/PREFIX. The keys come from the environment, so that no file and no list of
// processes shows them.
func bucketOf(text string) (store.S3Config, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "s3" && u.Scheme != "s3+http") || u.Host == "" || u.User != nil {
		return store.S3Config{}, fmt.Errorf("--store: want s3://ENDPOINT/BUCKET/PREFIX, or s3+http:// for a server without TLS; the keys are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment")
	}
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if bucket == "" {
		return store.S3Config{}, fmt.Errorf("--store: there is no bucket in it: want s3://ENDPOINT/BUCKET/PREFIX")
	}
	return store.S3Config{
		Endpoint: u.Host, Bucket: bucket, Prefix: prefix, Region: os.Getenv("AWS_REGION"),
		AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), Secure: u.Scheme == "s3",
	}, nil
}

// bytesIn reads an amount such as 500MB or 2TB; "" is 0, no bound.
func bytesIn(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	for suffix, unit := range map[string]float64{"MB": 1e6, "GB": 1e9, "TB": 1e12} {
		number, ok := strings.CutSuffix(text, suffix)
		if !ok {
			continue
		}
		var n float64
		if _, err := fmt.Sscanf(number, "%g", &n); err == nil && n > 0 && n*unit < 1e18 {
			return uint64(n * unit), nil
		}
	}
	return 0, usagef("--room %q: want a size such as 500MB, 200GB or 2TB", text)
}
