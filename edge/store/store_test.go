package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/iota-train/iota/protocol/message"
)

// both is what Memory and Dir have in common.
type both interface {
	Put(context.Context, message.Blob) (Hash, error)
	PutDurable(context.Context, message.Blob) (Hash, error)
	Get(context.Context, Hash, uint64) ([]byte, error)
	Has(context.Context, Hash) (bool, error)
	Delete(Hash) error
	Usage() uint64
	Verify(context.Context, Hash, uint64) error
	DeleteBefore(Hash, time.Time) (bool, error)
	Each(context.Context, func(Info) error) error
}

func openDir(t testing.TB, path string) *Dir {
	t.Helper()
	d, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestStoreBehavesLikeAMap(t *testing.T) {
	stores := map[string]func() both{
		"memory": func() both { return NewMemory(1 << 20) },
		"dir":    func() both { return openDir(t, t.TempDir()) },
		"s3": func() both {
			s := newServer(t)
			return s.open(s.config())
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkStore(t, open()) })
		})
	}
}

func checkStore(t *rapid.T, s both) {
	ctx := context.Background()
	blobs := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 40), 1, 5).Draw(t, "blobs")
	model := map[Hash][]byte{}
	pick := func(t *rapid.T) []byte { return rapid.SampledFrom(blobs).Draw(t, "blob") }
	t.Repeat(map[string]func(*rapid.T){
		"put": func(t *rapid.T) {
			b := pick(t)
			h, err := s.Put(ctx, message.NewBlob(b))
			if err != nil || h != Sum(b) {
				t.Fatalf("put: %v %v", h, err)
			}
			model[h] = b
		},
		"put durable": func(t *rapid.T) {
			b := pick(t)
			h, err := s.PutDurable(ctx, message.NewBlob(b))
			if err != nil || h != Sum(b) {
				t.Fatalf("put: %v %v", h, err)
			}
			model[h] = b
		},
		"get": func(t *rapid.T) {
			b := pick(t)
			got, err := s.Get(ctx, Sum(b), uint64(len(b)))
			if want, ok := model[Sum(b)]; ok && (err != nil || !bytes.Equal(got, want)) {
				t.Fatalf("get stored: %v", err)
			} else if !ok && !errors.Is(err, ErrMissing) {
				t.Fatalf("get missing: %v", err)
			}
		},
		"get another size": func(t *rapid.T) {
			b := pick(t)
			if _, err := s.Get(ctx, Sum(b), uint64(len(b))+1); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrMissing) {
				t.Fatalf("get: %v", err)
			}
		},
		"delete": func(t *rapid.T) {
			h := Sum(pick(t))
			if err := s.Delete(h); err != nil {
				t.Fatal(err)
			}
			delete(model, h)
		},
		"": func(t *rapid.T) {
			var used uint64
			for _, b := range model {
				used += uint64(len(b))
			}
			n := 0
			err := s.Each(ctx, func(i Info) error {
				if n++; uint64(len(model[i.Hash])) != i.Size {
					t.Fatalf("each: %v of %d bytes", i.Hash, i.Size)
				}
				ok, err := s.Has(ctx, i.Hash)
				if !ok || err != nil {
					t.Fatalf("has: %v %v", ok, err)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if s.Usage() != used || n != len(model) {
				t.Fatalf("%d blobs of %d bytes, want %d of %d", n, s.Usage(), len(model), used)
			}
		},
	})
}

func TestStoreRefusesWhatExceedsItsCapacity(t *testing.T) {
	ctx, dir, server := context.Background(), openDir(t, t.TempDir()), newServer(t)
	dir.Limit(10)
	c := server.config()
	c.Capacity = 10
	for name, m := range map[string]both{"memory": NewMemory(10), "dir": dir, "s3": server.open(c)} {
		t.Run(name, func(t *testing.T) {
			h, err := m.Put(ctx, message.NewBlob(make([]byte, 8)))
			if err != nil {
				t.Fatal(err)
			}
			for _, put := range []func(context.Context, message.Blob) (Hash, error){m.Put, m.PutDurable} {
				if _, err := put(ctx, message.NewBlob(make([]byte, 3))); !errors.Is(err, ErrFull) || m.Usage() != 8 || strings.Contains(err.Error(), "\n") {
					t.Fatalf("%v, %d bytes in use", err, m.Usage())
				}
				if ok, err := m.Has(ctx, Sum(make([]byte, 3))); ok || err != nil {
					t.Fatalf("half a blob is stored: %v", err)
				}
				if _, err := put(ctx, message.NewBlob(make([]byte, 8))); err != nil {
					t.Fatalf("a blob that is there: %v", err)
				}
			}
			m.Delete(h)
			if _, err := m.Put(ctx, message.NewBlob(make([]byte, 10))); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A blob that is put again is as new as if it had not been there.
func TestDeleteBeforeSparesWhatWasPutSince(t *testing.T) {
	ctx, server := context.Background(), newServer(t)
	for name, m := range map[string]both{"memory": NewMemory(100), "dir": openDir(t, t.TempDir()), "s3": server.open(server.config())} {
		t.Run(name, func(t *testing.T) {
			before := time.Now().Add(-time.Hour)
			h, err := m.Put(ctx, message.NewBlob([]byte("twelve bytes")))
			if err != nil {
				t.Fatal(err)
			}
			if gone, err := m.DeleteBefore(h, before); gone || err != nil {
				t.Fatalf("deleted %v, %v", gone, err)
			}
			if gone, err := m.DeleteBefore(h, time.Now().Add(time.Hour)); !gone || err != nil || m.Usage() != 0 {
				t.Fatalf("deleted %v, %v, %d bytes in use", gone, err, m.Usage())
			}
			if gone, err := m.DeleteBefore(h, time.Now().Add(time.Hour)); gone || err != nil {
				t.Fatalf("deleted twice: %v, %v", gone, err)
			}
		})
	}
	d := openDir(t, t.TempDir())
	h, err := d.Put(ctx, message.NewBlob([]byte("old")))
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(d.path(h), old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put(ctx, message.NewBlob([]byte("old"))); err != nil {
		t.Fatal(err)
	}
	if gone, err := d.DeleteBefore(h, time.Now().Add(-time.Hour)); gone || err != nil {
		t.Fatalf("deleted %v, %v", gone, err)
	}
}

func TestMemoryCopiesNothing(t *testing.T) {
	m, blob := NewMemory(10), []byte("ten bytes.")
	h, err := m.Put(t.Context(), message.NewBlob(blob))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Get(t.Context(), h, 10); err != nil || &got[0] != &blob[0] {
		t.Fatalf("other memory, %v", err)
	}
}

func TestGetNeverReturnsDamagedBytes(t *testing.T) {
	ctx, path := context.Background(), t.TempDir()
	d, blob := openDir(t, path), []byte("some forty bytes of a tensor that matters")
	h, err := d.Put(ctx, message.NewBlob(blob))
	if err != nil {
		t.Fatal(err)
	}
	for i := range blob {
		bad := bytes.Clone(blob)
		bad[i] ^= 1 << (i % 8)
		for _, stored := range [][]byte{bad, blob[:i], append(bytes.Clone(blob), 0)} {
			if err := os.WriteFile(d.path(h), stored, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Get(ctx, h, uint64(len(blob))); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
	}
	if _, err := d.Put(ctx, message.NewBlob(blob)); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Get(ctx, h, uint64(len(blob))); err != nil || !bytes.Equal(got, blob) {
		t.Fatalf("a second put repairs: %v", err)
	}
}

func TestReopenedFolderHoldsTheSameAndNoLeftovers(t *testing.T) {
	ctx, path := context.Background(), t.TempDir()
	d := openDir(t, path)
	h, err := d.Put(ctx, message.NewBlob([]byte("kept")))
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(path, tempFolder, "blob-123")
	stranger := filepath.Join(path, "notes.txt")
	for _, name := range []string{half, stranger, filepath.Join(path, h.String()[:2], "README")} {
		if err := os.WriteFile(name, []byte("half a bl"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d = openDir(t, path)
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Fatalf("temporary file: %v", err)
	}
	if _, err := os.Stat(stranger); err != nil {
		t.Fatalf("a stranger's file: %v", err)
	}
	if got, err := d.Get(ctx, h, 4); err != nil || string(got) != "kept" || d.Usage() != 4 {
		t.Fatalf("%q %v, %d bytes in use", got, err, d.Usage())
	}
}

// fullFile is a file on a disk with room for some bytes only.
type fullFile struct {
	*os.File
	room int
	sync error
}

func (f *fullFile) Write(b []byte) (int, error) {
	n, _ := f.File.Write(b[:min(len(b), f.room)])
	if n < len(b) {
		return n, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return n, nil
}

func (f *fullFile) Sync() error { return f.sync }

func TestFullDiskGivesOneErrorAndKeepsNoHalfBlob(t *testing.T) {
	ctx, path := context.Background(), t.TempDir()
	d := openDir(t, path)
	kept, err := d.Put(ctx, message.NewBlob([]byte("kept")))
	if err != nil {
		t.Fatal(err)
	}
	create := d.create
	for _, c := range []struct {
		room int
		sync error
	}{{0, nil}, {5, nil}, {100, syscall.ENOSPC}} {
		d.create = func(dir string) (file, error) {
			f, err := create(dir)
			if err != nil {
				return nil, err
			}
			return &fullFile{f.(*os.File), c.room, c.sync}, nil
		}
		_, err := d.PutDurable(ctx, message.NewBlob([]byte("ten bytes.")))
		if !errors.Is(err, ErrFull) || strings.Contains(err.Error(), "\n") {
			t.Fatalf("put: %v", err)
		}
		if left, _ := os.ReadDir(filepath.Join(path, tempFolder)); len(left) != 0 {
			t.Fatalf("left behind: %v", left)
		}
		if ok, _ := d.Has(ctx, Sum([]byte("ten bytes."))); ok || d.Usage() != 4 {
			t.Fatalf("half a blob is stored, %d bytes in use", d.Usage())
		}
		if _, err := d.Get(ctx, kept, 4); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConcurrentPutsOfOneBlobCountOnce(t *testing.T) {
	ctx, d := context.Background(), openDir(t, t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := d.Put(ctx, message.NewBlob(make([]byte, 1000))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if d.Usage() != 1000 {
		t.Fatalf("%d bytes in use", d.Usage())
	}
}

func TestEndedContextStopsEveryCall(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	server := newServer(t)
	for _, s := range []both{NewMemory(10), openDir(t, t.TempDir()), server.open(server.config())} {
		_, put := s.Put(ctx, message.NewBlob(nil))
		_, get := s.Get(ctx, Hash{}, 0)
		_, has := s.Has(ctx, Hash{})
		for _, err := range []error{put, get, has} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%T: %v", s, err)
			}
		}
	}
}

func TestParseHashReadsOnlyItsOwnForm(t *testing.T) {
	h := Sum([]byte("x"))
	if got, err := ParseHash(h.String()); err != nil || got != h {
		t.Fatalf("%v %v", got, err)
	}
	for _, s := range []string{"", "ab", strings.ToUpper(h.String()), strings.Repeat("/", 64), h.String() + "00"} {
		if _, err := ParseHash(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestSizeIsThatOfTheBlob(t *testing.T) {
	dir, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]interface {
		Put(context.Context, message.Blob) (Hash, error)
		Size(context.Context, Hash) (uint64, error)
	}{"memory": NewMemory(100), "dir": dir} {
		h, err := s.Put(t.Context(), message.NewBlob([]byte("twelve bytes")))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.Size(t.Context(), h); n != 12 || err != nil {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		if _, err := s.Size(t.Context(), Sum([]byte("elsewhere"))); !errors.Is(err, ErrMissing) {
			t.Errorf("%s: a missing blob gave %v", name, err)
		}
	}
}
