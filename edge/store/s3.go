package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/iota-train/iota/protocol/message"
)

// S3Config says where a bucket is and who asks for it. The keys stay out of JSON and out of what prints it.
type S3Config struct {
	Endpoint  string // host, or host:port
	Bucket    string
	Prefix    string // of the names of all blobs; "" for none
	Region    string // "" asks the server
	AccessKey string `json:"-"`
	SecretKey string `json:"-"`
	Secure    bool   // TLS
	Capacity  uint64 // bytes of all blobs; 0 for no bound
}

// String names the place, and no key.
func (c S3Config) String() string {
	scheme := "http"
	if c.Secure {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s/%s/%s", scheme, c.Endpoint, c.Bucket, c.Prefix)
}

// GoString is String.
func (c S3Config) GoString() string { return c.String() }

// S3 is a store in a bucket of any S3 server: a blob is the object of its hash, after the prefix. One process at a time
// may own a prefix; within it all methods may be called by many goroutines. It remembers which blobs there are, so that
// Size and Delete need not ask first; what others put by a presigned address is learned when it is asked for or listed.
type S3 struct {
	refusal
	place    string
	bucket   string
	prefix   string
	capacity uint64
	client   minio.Core
	watch    *watch

	mu      sync.Mutex
	known   map[Hash]uint64 // size of every blob known to be there
	used    uint64          // bytes of them
	claims  map[Hash]claim  // what may be put by others
	claimed uint64          // bytes of them
	pruned  time.Time       // when ended claims were last dropped
	putting map[Hash]int    // puts under way
	removed map[Hash]bool   // deleted since a listing began; nil while there is none
}

// Bounds of single calls.
const (
	partSize     = 16 << 20 // larger blobs are sent in parts
	deleteWithin = time.Minute
)

// OpenS3 opens the store and learns what it holds. Parts of uploads that an earlier process left behind are removed. Every
// error is one line that says what to check.
func OpenS3(ctx context.Context, c S3Config) (*S3, error) {
	return openS3(ctx, c, newWatch(stallAfter, answerAfter))
}

func openS3(ctx context.Context, c S3Config, w *watch) (*S3, error) {
	if c.Prefix != "" && !strings.HasSuffix(c.Prefix, "/") {
		c.Prefix += "/"
	}
	fail := func(err error) (*S3, error) {
		w.close()
		return nil, fmt.Errorf("open store %s: %w", c, explain(err))
	}
	client, err := minio.NewCore(c.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(c.AccessKey, c.SecretKey, ""), Secure: c.Secure, Region: c.Region,
		Transport: w, MaxRetries: tries,
	})
	if err != nil {
		return fail(err)
	}
	s := &S3{
		place: c.String(), bucket: c.Bucket, prefix: c.Prefix, capacity: c.Capacity, client: *client, watch: w,
		known: map[Hash]uint64{}, claims: map[Hash]claim{}, putting: map[Hash]int{},
	}
	all, err := s.list(ctx)
	if err != nil {
		return fail(err)
	}
	for _, i := range all {
		s.note(i.Hash, i.Size)
	}
	for part := range client.ListIncompleteUploads(ctx, c.Bucket, c.Prefix, true) {
		if part.Err == nil {
			_ = client.AbortMultipartUpload(ctx, c.Bucket, part.Key, part.UploadID) // it costs room and nothing else
		}
	}
	return s, nil
}

// Close ends idle connections.
func (s *S3) Close() { s.watch.close() }

// Put stores b and returns its hash; a damaged copy that is already there is replaced. A blob that does not fit is
// refused with ErrFull. What it stored is as durable as the server makes it.
func (s *S3) Put(ctx context.Context, blob message.Blob) (Hash, error) {
	h, b := Hash(blob.Hash()), blob.Bytes()
	if err := s.begin(h, uint64(len(b))); err != nil {
		return Hash{}, s.remember(err)
	}
	_, err := s.client.Client.PutObject(ctx, s.bucket, s.name(h), bytes.NewReader(b), int64(len(b)), minio.PutObjectOptions{
		PartSize: partSize, NumThreads: 4, ContentType: "application/octet-stream",
		// Signed chunks would be kept inside the object by some servers. What is stored is verified when it is read.
		DisableContentSha256: true,
	})
	s.end(h, uint64(len(b)), err == nil)
	if err != nil {
		return Hash{}, s.remember(fmt.Errorf("store blob %s: %w", h.Short(), told(ctx, err)))
	}
	return h, nil
}

// PutDurable is Put: an object that the server took is durable.
func (s *S3) PutDurable(ctx context.Context, b message.Blob) (Hash, error) { return s.Put(ctx, b) }

// Get returns the blob in a slice of the caller's own, having verified its size and hash. A connection that breaks is taken
// up where it ended.
func (s *S3) Get(ctx context.Context, h Hash, size uint64) ([]byte, error) {
	b, err := fetch(ctx, h, size, s.opener(h))
	return b, s.lost(h, err)
}

// Verify reads the blob and compares its size and hash, in little memory. What came by a presigned address has never
// been hashed by anybody but its sender, so a checkpoint must be verified before it is pointed to. Other blobs need not
// be: whoever fetches one compares its hash, and reports it as missing.
func (s *S3) Verify(ctx context.Context, h Hash, size uint64) error {
	if err := download(ctx, h, size, s.opener(h), io.Discard); err != nil {
		return s.lost(h, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(h, size)
	return nil
}

func (s *S3) opener(h Hash) opener {
	return func(ctx context.Context, from uint64) (io.ReadCloser, uint64, uint64, error) {
		return s.open(ctx, h, from)
	}
}

// open begins to read the blob at a byte.
func (s *S3) open(ctx context.Context, h Hash, from uint64) (io.ReadCloser, uint64, uint64, error) {
	var o minio.GetObjectOptions
	if from > 0 {
		o.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	body, info, header, err := s.client.GetObject(ctx, s.bucket, s.name(h), o)
	if err != nil {
		return nil, 0, 0, told(ctx, err)
	}
	begins, size, err := extent(header.Get("Content-Range"), info.Size)
	if err != nil {
		body.Close()
		return nil, 0, 0, err
	}
	return body, begins, size, nil
}

// Has reports whether a blob of that hash is stored; only Get tells whether it is intact.
func (s *S3) Has(ctx context.Context, h Hash) (bool, error) {
	_, err := s.Size(ctx, h)
	if errors.Is(err, ErrMissing) {
		return false, nil
	}
	return err == nil, err
}

// Size returns the bytes of the blob, or ErrMissing; only Get tells whether it is intact.
func (s *S3) Size(ctx context.Context, h Hash) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	size, ok := s.known[h]
	s.mu.Unlock()
	if ok {
		return size, nil
	}
	info, err := s.client.StatObject(ctx, s.bucket, s.name(h), minio.StatObjectOptions{})
	if err != nil {
		return 0, fmt.Errorf("blob %s: %w", h.Short(), told(ctx, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(h, uint64(info.Size))
	return uint64(info.Size), nil
}

// Delete removes the blob. Deleting one that is not there succeeds.
func (s *S3) Delete(h Hash) error {
	s.mu.Lock()
	s.forget(h)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), deleteWithin)
	defer cancel()
	err := s.client.RemoveObject(ctx, s.bucket, s.name(h), minio.RemoveObjectOptions{})
	if err = told(ctx, err); err != nil && !errors.Is(err, ErrMissing) {
		return fmt.Errorf("delete blob %s: %w", h.Short(), err)
	}
	return nil
}

// DeleteBefore removes the blob if it was last put before that time and nobody is putting it or holds an address to do
// so, and reports whether it did.
func (s *S3) DeleteBefore(h Hash, before time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deleteWithin)
	defer cancel()
	info, err := s.client.StatObject(ctx, s.bucket, s.name(h), minio.StatObjectOptions{})
	if err = told(ctx, err); errors.Is(err, ErrMissing) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("delete blob %s: %w", h.Short(), err)
	}
	if !info.LastModified.Before(before) || s.owned(h) {
		return false, nil
	}
	return true, s.Delete(h)
}

// Usage returns the bytes of all blobs that are known to be there.
func (s *S3) Usage() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Each calls fn with every blob, in order of hash, and stops at its first error. fn may call the store.
func (s *S3) Each(ctx context.Context, fn func(Info) error) error {
	s.mu.Lock()
	s.removed = map[Hash]bool{}
	s.mu.Unlock()
	all, err := s.list(ctx)
	s.mu.Lock()
	for _, i := range all {
		if !s.removed[i.Hash] {
			s.note(i.Hash, i.Size)
		}
	}
	s.removed = nil
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("list store %s: %w", s.place, err)
	}
	return each(all, fn)
}

// list asks the server for all objects that are named like blobs.
func (s *S3) list(ctx context.Context) ([]Info, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []Info
	for o := range s.client.Client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, told(ctx, o.Err)
		}
		if h, err := ParseHash(strings.TrimPrefix(o.Key, s.prefix)); err == nil {
			all = append(all, Info{h, uint64(o.Size), o.LastModified})
		}
	}
	return all, ctx.Err()
}

func (s *S3) name(h Hash) string { return s.prefix + h.String() }
