package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// claim is the room of a blob that somebody with a presigned address may put.
type claim struct {
	size  uint64
	until time.Time
}

const maxClaims = 1 << 17

// begin makes sure that there is room for a blob that is about to be put.
func (s *S3) begin(h Hash, size uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fits(h, size); err != nil {
		return err
	}
	s.putting[h]++
	return nil
}

// end counts a blob that was put.
func (s *S3) end(h Hash, size uint64, stored bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.putting[h]--; s.putting[h] == 0 {
		delete(s.putting, h)
	}
	if stored {
		s.note(h, size)
	}
}

// fits returns ErrFull if a blob would exceed the capacity, with all that others may still put.
func (s *S3) fits(h Hash, size uint64) error {
	if now := time.Now(); now.Sub(s.pruned) >= time.Second {
		s.pruned = now
		maps.DeleteFunc(s.claims, func(_ Hash, c claim) bool {
			if c.until.After(now) {
				return false
			}
			s.claimed -= c.size
			return true
		})
	}
	used := s.used + s.claimed - s.known[h] - s.claims[h].size
	if s.capacity > 0 && size > s.known[h] && (used > s.capacity || size > s.capacity-used) {
		return full(h, size, s.used+s.claimed, s.capacity)
	}
	return nil
}

// claim keeps room for a blob, and the blob itself from DeleteBefore, until that time.
func (s *S3) claim(h Hash, size uint64, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fits(h, size); err != nil {
		return err
	}
	if len(s.claims) >= maxClaims {
		return fmt.Errorf("store blob %s: %d other uploads are promised: try again later", h.Short(), len(s.claims))
	}
	if _, known := s.known[h]; known {
		size = 0 // it has its room
	}
	old := s.claims[h]
	if old.until.After(until) {
		until = old.until
	}
	s.claimed += size - old.size
	s.claims[h] = claim{size, until}
	return nil
}

// owned reports whether somebody is putting the blob, or may.
func (s *S3) owned(h Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putting[h] > 0 || s.claims[h].until.After(time.Now())
}

// note takes in that a blob is there.
func (s *S3) note(h Hash, size uint64) {
	s.used += size - s.known[h]
	s.known[h] = size
	if c, ok := s.claims[h]; ok {
		s.claimed -= c.size
		s.claims[h] = claim{0, c.until}
	}
}

// forget takes in that a blob is gone.
func (s *S3) forget(h Hash) {
	s.used -= s.known[h]
	delete(s.known, h)
	if s.removed != nil {
		s.removed[h] = true
	}
}

// lost forgets a blob that turned out to be missing, and returns the error.
func (s *S3) lost(h Hash, err error) error {
	if errors.Is(err, ErrMissing) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forget(h)
	}
	return err
}

// told makes an error of this package of one of the client's: short, without addresses, and without what the server may
// have written into it.
func told(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if e := ctx.Err(); e != nil {
		return e
	}
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		return again{bare(err)}
	}
	switch answer.Code {
	case minio.NoSuchKey:
		return ErrMissing
	case "QuotaExceeded", "XMinioStorageFull", "StorageFull", "InsufficientStorage":
		return fmt.Errorf("the server answers %s: %w", answer.Code, ErrFull)
	}
	return refused{plain(answer.Code), answer.StatusCode}
}

// refused is an answer of the server that is not what was asked for.
type refused struct {
	code   string
	status int
}

func (r refused) Error() string {
	if r.code == "" {
		return fmt.Sprintf("the server answers with status %d", r.status)
	}
	return "the server answers " + r.code
}

// plain keeps an error code short and printable.
func plain(code string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, code[:min(len(code), 64)])
}

// explain adds to an error of opening what to check.
func explain(err error) error {
	var r refused
	var soft again
	switch {
	case errors.As(err, &r):
		switch r.code {
		case minio.NoSuchBucket:
			return fmt.Errorf("%w: there is no such bucket: create it, or name another", err)
		case minio.InvalidAccessKeyID, minio.SignatureDoesNotMatch, minio.AccessDenied, "Forbidden":
			return fmt.Errorf("%w: check access key, secret key and the rights on the bucket", err)
		case minio.AuthorizationHeaderMalformed, minio.InvalidRegion, "PermanentRedirect", "IllegalLocationConstraintException":
			return fmt.Errorf("%w: check the region", err)
		}
	case errors.As(err, &soft):
		return fmt.Errorf("%w: check the endpoint, and whether it speaks TLS", err)
	}
	return err
}

// extent reads where a body begins and how large the whole object is: of a Content-Range, or of a whole body's length.
func extent(header string, length int64) (begins, size uint64, err error) {
	if header == "" {
		if length < 0 {
			return 0, 0, again{errors.New("the server does not say how much it sends")}
		}
		return 0, uint64(length), nil
	}
	span, whole, ok := strings.Cut(strings.TrimPrefix(header, "bytes "), "/")
	from, _, dash := strings.Cut(span, "-")
	begins, err = strconv.ParseUint(from, 10, 63)
	if err == nil {
		size, err = strconv.ParseUint(whole, 10, 63)
	}
	if !ok || !dash || err != nil || begins > size {
		return 0, 0, again{errors.New("the server's Content-Range makes no sense")}
	}
	return begins, size, nil
}
