package store

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/iota-train/iota/protocol/message"
)

var noOptions minio.PutObjectOptions

// addresses presigns as an orchestrator would.
func addresses(s *S3) Addresses {
	return func(ctx context.Context, access Access, h Hash, size uint64) (string, error) {
		if access == AccessPut {
			return s.PresignPut(ctx, h, size, time.Hour)
		}
		return s.PresignGet(ctx, h, time.Hour)
	}
}

// presigned returns a bucket and those who have no keys to it.
func presigned(t *testing.T, capacity uint64) (*server, *S3, *Presigned) {
	server := newServer(t)
	c := server.config()
	c.Capacity = capacity
	s := server.open(c)
	p := NewPresigned(addresses(s))
	t.Cleanup(p.Close)
	return server, s, p
}

func TestPresignedGivesBackWhatWasPut(t *testing.T) {
	_, s, p := presigned(t, 0)
	for _, n := range []int{0, 1, 100_000, 18 << 20} {
		b := noise(uint64(n), n)
		if ok, err := p.Has(t.Context(), Sum(b)); ok || err != nil {
			t.Fatalf("%d bytes are there before: %v", n, err)
		}
		if _, err := p.Get(t.Context(), Sum(b), uint64(n)); !errors.Is(err, ErrMissing) {
			t.Fatalf("get missing: %v", err)
		}
		for range 2 { // the second time it is there
			if h, err := p.PutDurable(t.Context(), message.NewBlob(b)); err != nil || h != Sum(b) {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
		if got, err := p.Get(t.Context(), Sum(b), uint64(n)); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%d bytes: got %d, %v", n, len(got), err)
		}
		if ok, err := p.Has(t.Context(), Sum(b)); !ok || err != nil {
			t.Fatalf("%d bytes are not there: %v", n, err)
		}
		if err := s.Verify(t.Context(), Sum(b), uint64(n)); err != nil {
			t.Fatal(err)
		}
	}
	if s.Usage() != 100_001+18<<20 {
		t.Errorf("%d bytes in use", s.Usage())
	}
}

// What anybody puts by a presigned address is what its sender says it is only after it was verified.
func TestWhatAPresignedAddressStoredIsFoundOut(t *testing.T) {
	server, s, p := presigned(t, 0)
	blob := noise(1, 1000)
	h := Sum(blob)
	address, err := s.PresignPut(t.Context(), h, 1000, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(onlyNew[0], onlyNew[1])
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if status := put(noise(2, 1001)); status != http.StatusForbidden {
		t.Errorf("another size: status %d", status)
	}
	if status := put(noise(2, 1000)); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	if err := s.Verify(t.Context(), h, 1000); !errors.Is(err, ErrCorrupt) {
		t.Errorf("verify: %v", err)
	}
	if _, err := p.Get(t.Context(), h, 1000); !errors.Is(err, ErrCorrupt) {
		t.Errorf("get: %v", err)
	}
	if _, err := p.Put(t.Context(), message.NewBlob(blob)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("somebody took its name: %v", err)
	}
	if err := s.Delete(h); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Put(t.Context(), message.NewBlob(blob)); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context(), h, 1000); err != nil {
		t.Fatal(err)
	}
	if status := put(noise(2, 1000)); status != http.StatusPreconditionFailed {
		t.Errorf("it can be replaced after it was verified: status %d", status)
	}
	if server.late.Store(int64(2 * time.Hour)); put(blob) != http.StatusForbidden {
		t.Error("the address never expires")
	}
}

func TestExpiredAddressEndsInOneLineWithoutIt(t *testing.T) {
	server, s, p := presigned(t, 0)
	h, err := s.Put(t.Context(), message.NewBlob([]byte("twelve bytes")))
	if err != nil {
		t.Fatal(err)
	}
	server.late.Store(int64(2 * time.Hour))
	before := len(server.asked())
	_, get := p.Get(t.Context(), h, 12)
	if n := len(server.asked()) - before; n != tries {
		t.Errorf("%d attempts", n)
	}
	_, put := p.Put(t.Context(), message.NewBlob([]byte("other bytes")))
	_, has := p.Has(t.Context(), h)
	for _, err := range []error{get, put, has} {
		if err == nil || !strings.Contains(err.Error(), "AccessDenied") || strings.Contains(err.Error(), "X-Amz") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v", err)
		}
	}
	server.late.Store(0)
	if _, err := p.Get(t.Context(), h, 12); err != nil {
		t.Errorf("a new address: %v", err)
	}
}

func TestPromisedUploadsCountAsRoom(t *testing.T) {
	_, s, p := presigned(t, 1000)
	promised := noise(1, 600)
	if _, err := s.PresignPut(t.Context(), Sum(promised), 600, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Put(t.Context(), message.NewBlob(noise(2, 600))); !errors.Is(err, ErrFull) {
		t.Errorf("a second upload of 600 bytes: %v", err)
	}
	if _, err := s.Put(t.Context(), message.NewBlob(noise(3, 600))); !errors.Is(err, ErrFull) {
		t.Errorf("a put of 600 bytes: %v", err)
	}
	if _, err := p.Put(t.Context(), message.NewBlob(promised)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Each(t.Context(), func(Info) error { return nil }); err != nil || s.Usage() != 600 {
			t.Errorf("%d bytes in use, %v", s.Usage(), err)
		}
	}
	if gone, err := s.DeleteBefore(Sum(promised), time.Now().Add(time.Hour)); gone || err != nil {
		t.Errorf("deleted %v, %v, though somebody holds an address", gone, err)
	}
	if err := s.Delete(Sum(promised)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Put(t.Context(), message.NewBlob(noise(2, 1000))); err != nil {
		t.Errorf("with all room free: %v", err)
	}
}

func TestTooLargeForOneRequestIsRefused(t *testing.T) {
	_, s, _ := presigned(t, 0)
	if _, err := s.PresignPut(t.Context(), Hash{}, MaxPresigned+1, time.Hour); err == nil {
		t.Error("it was promised")
	}
}

func TestEndedContextStopsEveryRequest(t *testing.T) {
	_, _, p := presigned(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, put := p.Put(ctx, message.NewBlob(nil))
	_, get := p.Get(ctx, Hash{}, 0)
	_, has := p.Has(ctx, Hash{})
	for _, err := range []error{put, get, has} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}
