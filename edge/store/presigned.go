package store

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/iota-train/iota/protocol/message"
)

// Access is what a presigned address allows.
type Access string

// The kinds of access.
const (
	AccessPut Access = "put"
	AccessGet Access = "get"
)

// Addresses gives the presigned address of a blob. It is asked anew for each request, so that none has to last. The size
// of a blob whose presence alone is in question is 0. It returns ErrFull where there is no room for the blob.
type Addresses func(ctx context.Context, access Access, h Hash, size uint64) (string, error)

// Presigned is a bucket without credentials: every request goes to an address that somebody else signed. What it gets is
// verified like anything else. All methods may be called by many goroutines.
type Presigned struct {
	addresses Addresses
	watch     *watch
	client    *http.Client
}

// NewPresigned returns the blobs behind the addresses.
func NewPresigned(addresses Addresses) *Presigned {
	return newPresigned(addresses, newWatch(stallAfter, answerAfter))
}

func newPresigned(addresses Addresses, w *watch) *Presigned {
	return &Presigned{addresses, w, &http.Client{Transport: w, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a redirect would carry the signature elsewhere
	}}}
}

// Close ends idle connections.
func (p *Presigned) Close() { p.watch.close() }

// Put stores b and returns its hash. It is one request, which is sent again from its beginning if it breaks off; a blob
// above MaxPresigned is refused. A blob that is there already is compared; if it is another one, which somebody put
// under this name, the error is ErrCorrupt.
func (p *Presigned) Put(ctx context.Context, blob message.Blob) (Hash, error) {
	h, b := Hash(blob.Hash()), blob.Bytes()
	if len(b) > MaxPresigned {
		return Hash{}, fmt.Errorf("store blob %s of %d bytes: more than %d are not taken in one request", h.Short(), len(b), uint64(MaxPresigned))
	}
	if err := insist(ctx, func() error { return p.put(ctx, h, b) }); err != nil {
		return Hash{}, fmt.Errorf("store blob %s: %w", h.Short(), err)
	}
	return h, nil
}

// PutDurable is Put: an object that the server took is durable.
func (p *Presigned) PutDurable(ctx context.Context, b message.Blob) (Hash, error) {
	return p.Put(ctx, b)
}

// put sends the blob once.
func (p *Presigned) put(ctx context.Context, h Hash, b []byte) error {
	resp, err := p.do(ctx, AccessPut, h, uint64(len(b)), func(r *http.Request) {
		r.ContentLength = int64(len(b))
		if len(b) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(b))
		}
		r.Header.Set(onlyNew[0], onlyNew[1])
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent:
		return nil
	case http.StatusPreconditionFailed:
		size := uint64(len(b))
		return download(ctx, h, size, p.opener(h, size), io.Discard)
	}
	return answered(resp)
}

// Get returns the blob in a slice of the caller's own, having verified its size and hash. It reads no more than size
// bytes. A connection that breaks or stalls is taken up where it ended.
func (p *Presigned) Get(ctx context.Context, h Hash, size uint64) ([]byte, error) {
	return fetch(ctx, h, size, p.opener(h, size))
}

// opener opens the blob at an address that is asked for that size.
func (p *Presigned) opener(h Hash, size uint64) opener {
	return func(ctx context.Context, from uint64) (io.ReadCloser, uint64, uint64, error) {
		return p.open(ctx, h, size, from)
	}
}

// open begins to read the blob at a byte.
func (p *Presigned) open(ctx context.Context, h Hash, size, from uint64) (io.ReadCloser, uint64, uint64, error) {
	resp, err := p.do(ctx, AccessGet, h, size, func(r *http.Request) {
		if from > 0 {
			r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		}
	})
	if err != nil {
		return nil, 0, 0, err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent {
		defer resp.Body.Close()
		return nil, 0, 0, answered(resp)
	}
	begins, stored, err := extent(resp.Header.Get("Content-Range"), resp.ContentLength)
	if err != nil {
		resp.Body.Close()
		return nil, 0, 0, err
	}
	return resp.Body, begins, stored, nil
}

// Has reports whether a blob of that hash is stored; only Get tells whether it is intact.
func (p *Presigned) Has(ctx context.Context, h Hash) (bool, error) {
	err := insist(ctx, func() error { return p.glance(ctx, h) })
	if errors.Is(err, ErrMissing) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("blob %s: %w", h.Short(), err)
	}
	return true, nil
}

// glance gets the first byte of the blob, if it has any.
func (p *Presigned) glance(ctx context.Context, h Hash) error {
	resp, err := p.do(ctx, AccessGet, h, 0, func(r *http.Request) { r.Header.Set("Range", "bytes=0-0") })
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable:
		return nil
	}
	return answered(resp)
}

// do sends one request to a new address.
func (p *Presigned) do(ctx context.Context, access Access, h Hash, size uint64, prepare func(*http.Request)) (*http.Response, error) {
	address, err := p.addresses(ctx, access, h, size)
	if err != nil {
		return nil, err
	}
	method := http.MethodGet
	if access == AccessPut {
		method = http.MethodPut
	}
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, errors.New("the presigned address makes no sense")
	}
	prepare(r)
	resp, err := p.client.Do(r)
	if err != nil {
		return nil, again{bare(err)}
	}
	return resp, nil
}

// answered makes an error of an answer that is not what was asked for.
func answered(resp *http.Response) error {
	const longest = 16 << 10
	var body struct{ Code string }
	if b, err := io.ReadAll(io.LimitReader(resp.Body, longest)); err == nil {
		_ = xml.Unmarshal(b, &body) // without it the status has to do
	}
	err := refused{plain(body.Code), resp.StatusCode}
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return ErrMissing
	case resp.StatusCode == http.StatusInsufficientStorage:
		return fmt.Errorf("%w: %w", err, ErrFull)
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusRequestTimeout,
		resp.StatusCode == http.StatusForbidden: // perhaps because the address expired on the way
		return again{err}
	}
	return err
}
