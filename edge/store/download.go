package store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/blake3"
)

// opener begins to read a blob at a byte. It returns the blob's whole size, and where the body begins: a server may
// ignore what it was asked for.
type opener func(ctx context.Context, from uint64) (body io.ReadCloser, begins, size uint64, err error)

// again says that an attempt failed in a way that another one may not.
type again struct{ error }

func (a again) Unwrap() error { return a.error }

// enough is how much a broken download must have brought for it not to count as a failure.
const enough = 1 << 20

// download writes the blob of that hash and size to w, and verifies both. A connection that breaks or stalls is taken up
// where it ended; the number of attempts is bounded by the blob's size. On an error w may hold a part of the blob.
func download(ctx context.Context, h Hash, size uint64, open opener, w io.Writer) error {
	hasher := blake3.New()
	sink := io.MultiWriter(w, hasher)
	var had uint64
	for try := 0; ; {
		n, err := resume(ctx, h, size, had, open, sink)
		had += n
		if err == nil {
			break
		}
		var soft again
		if e := ctx.Err(); e != nil {
			return e
		}
		if n >= enough {
			try = 0
		}
		if try++; !errors.As(err, &soft) || try >= tries {
			return fmt.Errorf("get blob %s: %w", h.Short(), err)
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
	var got Hash
	hasher.Sum(got[:0])
	if got != h {
		return fmt.Errorf("blob %s: content has another hash: %w", h.Short(), ErrCorrupt)
	}
	return nil
}

// resume writes the blob's bytes from had on, and returns how many.
func resume(ctx context.Context, h Hash, size, had uint64, open opener, w io.Writer) (uint64, error) {
	body, begins, stored, err := open(ctx, had)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	if stored != size {
		return 0, fmt.Errorf("stored %d bytes, want %d: %w", stored, size, ErrCorrupt)
	}
	if begins > had {
		return 0, fmt.Errorf("the server skips %d bytes: %w", begins-had, ErrCorrupt)
	}
	if _, err := io.CopyN(io.Discard, body, int64(had-begins)); err != nil {
		return 0, again{bare(err)}
	}
	n, err := io.CopyN(w, body, int64(size-had))
	if err != nil {
		return uint64(n), again{bare(err)}
	}
	return uint64(n), nil
}

// fetch returns the blob in a slice of the caller's own, having verified its size and hash. It takes no memory before the
// store has said that the blob has that size, and reads no more than that.
func fetch(ctx context.Context, h Hash, size uint64, open opener) ([]byte, error) {
	var into fixed
	err := download(ctx, h, size, func(ctx context.Context, from uint64) (io.ReadCloser, uint64, uint64, error) {
		body, begins, stored, err := open(ctx, from)
		if err == nil && into.b == nil && stored == size {
			into.b = make([]byte, 0, size)
		}
		return body, begins, stored, err
	}, &into)
	if err != nil {
		return nil, err
	}
	return into.b, nil
}

// fixed writes into a slice that has room for a whole blob.
type fixed struct{ b []byte }

func (f *fixed) Write(b []byte) (int, error) {
	f.b = append(f.b, b...)
	return len(b), nil
}
