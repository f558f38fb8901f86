package store

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// MaxPresigned bounds a blob that is put by a presigned address, in bytes: it is one request, and 5 GiB is the most that
// S3 takes in one.
const MaxPresigned = 5 << 30

// onlyNew is a header that a presigned PUT must carry, as it is signed: a blob that is there is never replaced, so that
// nobody can change one after it was verified. Servers that do not know the header replace it.
var onlyNew = [2]string{"If-None-Match", "*"}

// PresignPut returns an address by which anybody may put the blob once, in exactly that size, until it expires. Room for
// it is kept until then, and DeleteBefore spares it. What is put there is not trusted: see Verify.
func (s *S3) PresignPut(ctx context.Context, h Hash, size uint64, expires time.Duration) (string, error) {
	if size > MaxPresigned {
		return "", fmt.Errorf("store blob %s of %d bytes: more than %d are not taken in one request", h.Short(), size, uint64(MaxPresigned))
	}
	if err := s.claim(h, size, time.Now().Add(expires)); err != nil {
		return "", s.remember(err)
	}
	signed := http.Header{}
	signed.Set("Content-Length", strconv.FormatUint(size, 10))
	signed.Set(onlyNew[0], onlyNew[1])
	u, err := s.client.PresignHeader(ctx, http.MethodPut, s.bucket, s.name(h), expires, nil, signed)
	if err != nil {
		return "", fmt.Errorf("presign blob %s: %w", h.Short(), told(ctx, err))
	}
	return u.String(), nil
}

// PresignGet returns an address by which anybody may get the blob until it expires, whether it is there or not.
func (s *S3) PresignGet(ctx context.Context, h Hash, expires time.Duration) (string, error) {
	u, err := s.client.PresignedGetObject(ctx, s.bucket, s.name(h), expires, nil)
	if err != nil {
		return "", fmt.Errorf("presign blob %s: %w", h.Short(), told(ctx, err))
	}
	return u.String(), nil
}
