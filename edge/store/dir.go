package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// Dir is a store in a folder: blob 3fa1... is the file 3f/a1.... Blobs are written to a temporary file and renamed, so a
// process killed at any moment leaves no half blob under a hash. One process at a time may own the folder; within it all
// methods may be called by many goroutines.
type Dir struct {
	refusal
	root string
	// create opens a new temporary file; tests replace it to inject failing disks.
	create func(dir string) (file, error)

	mu       sync.Mutex // guards what follows and the step from "is it there" to "it is there"
	used     uint64
	capacity uint64
}

// file is the part of os.File that writing a blob needs.
type file interface {
	io.WriteCloser
	Sync() error
	Name() string
}

// tempFolder holds files being written. Its name is no pair of hex digits, so no blob can collide with it.
const tempFolder = "tmp"

// OpenDir opens the store in the folder, which it makes if need be. Temporary files that an earlier process left behind
// are removed; files that are not named like a blob are left alone.
func OpenDir(path string) (*Dir, error) {
	temp := filepath.Join(path, tempFolder)
	if err := os.RemoveAll(temp); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	d := &Dir{root: path, capacity: math.MaxUint64, create: func(dir string) (file, error) { return os.CreateTemp(dir, "blob-*") }}
	all, err := d.scan()
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	for _, e := range all {
		d.used += e.Size
	}
	return d, nil
}

// Limit bounds the bytes of all blobs: what does not fit is refused with ErrFull, as on a full disk. Nothing that is
// stored already is removed.
func (d *Dir) Limit(capacity uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = capacity
}

// Put stores b and returns its hash. The blob survives the death of this process, not of the machine. A damaged copy
// that is already there is replaced. On any error nothing of the blob is kept; a full disk gives ErrFull.
func (d *Dir) Put(ctx context.Context, b message.Blob) (Hash, error) { return d.put(ctx, b, false) }

// PutDurable is Put for blobs that must survive a power cut, as checkpoints must: the file and its folders are synced to
// disk before it returns.
func (d *Dir) PutDurable(ctx context.Context, b message.Blob) (Hash, error) {
	return d.put(ctx, b, true)
}

func (d *Dir) put(ctx context.Context, blob message.Blob, durable bool) (Hash, error) {
	if err := ctx.Err(); err != nil {
		return Hash{}, err
	}
	h, b := Hash(blob.Hash()), blob.Bytes()
	if !durable && d.holds(h, b) {
		return h, nil
	}
	if err := d.room(h, uint64(len(b))); err != nil {
		return Hash{}, d.remember(err)
	}
	if err := d.write(h, b, durable); errors.Is(err, ErrFull) {
		return Hash{}, d.remember(err)
	} else if err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return Hash{}, d.remember(fmt.Errorf("store blob %s of %d bytes in %s: no space left on disk: %w",
				h.Short(), len(b), d.root, ErrFull))
		}
		return Hash{}, fmt.Errorf("store blob %s: %w", h.Short(), err)
	}
	return h, nil
}

// room returns an error if the blob does not fit: asked before it is written, and again when it is counted.
func (d *Dir) room(h Hash, size uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fits(h, size)
}

func (d *Dir) fits(h Hash, size uint64) error {
	var before uint64
	if info, err := os.Stat(d.path(h)); err == nil {
		before = uint64(info.Size())
	}
	if rest := d.used - before; size > before && (rest > d.capacity || size > d.capacity-rest) {
		return full(h, size, d.used, d.capacity)
	}
	return nil
}

// holds reports whether the file of h is there with the very bytes of b. It is then as new as if it had been written.
func (d *Dir) holds(h Hash, b []byte) bool {
	info, err := os.Stat(d.path(h))
	if err != nil || info.Size() != int64(len(b)) {
		return false
	}
	stored, err := os.ReadFile(d.path(h))
	if err != nil || !bytes.Equal(stored, b) {
		return false
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	return os.Chtimes(d.path(h), now, now) == nil // not if it was deleted meanwhile
}

func (d *Dir) write(h Hash, b []byte, durable bool) error {
	f, err := d.create(filepath.Join(d.root, tempFolder))
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && durable {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = d.rename(f.Name(), h, uint64(len(b)))
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	if !durable {
		return nil
	}
	for _, dir := range []string{filepath.Dir(d.path(h)), d.root} {
		if err := syncFolder(dir); err != nil {
			return err
		}
	}
	return nil
}

// rename gives the finished temporary file its hash as name, and counts it.
func (d *Dir) rename(temp string, h Hash, size uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := d.path(h)
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := d.fits(h, size); err != nil {
		return err
	}
	var before uint64
	if info, err := os.Stat(path); err == nil {
		before = uint64(info.Size())
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	d.used += size - before
	return nil
}

// syncFolder makes renames in the folder durable.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Get returns the blob in a slice of the caller's own, having verified its size and hash. It reads no more than size
// bytes, whatever lies on disk.
func (d *Dir) Get(ctx context.Context, h Hash, size uint64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.Open(d.path(h))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("blob %s: %w", h.Short(), ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", h.Short(), err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", h.Short(), err)
	}
	if uint64(info.Size()) != size {
		return nil, fmt.Errorf("blob %s: stored %d bytes, want %d: %w", h.Short(), info.Size(), size, ErrCorrupt)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("blob %s: %w", h.Short(), err)
	}
	if err := verify(h, size, b); err != nil {
		return nil, err
	}
	return b, nil
}

// Verify reads the blob and compares its size and hash, in little memory.
func (d *Dir) Verify(ctx context.Context, h Hash, size uint64) error {
	open := func(context.Context, uint64) (io.ReadCloser, uint64, uint64, error) {
		f, err := os.Open(d.path(h))
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrMissing
		}
		if err != nil {
			return nil, 0, 0, err
		}
		info, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, 0, 0, err
		}
		return f, 0, uint64(info.Size()), nil
	}
	return download(ctx, h, size, open, io.Discard)
}

// Has reports whether a blob of that hash is stored; only Get tells whether it is intact.
func (d *Dir) Has(ctx context.Context, h Hash) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	_, err := os.Stat(d.path(h))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Size returns the bytes of the blob, or ErrMissing; only Get tells whether it is intact.
func (d *Dir) Size(ctx context.Context, h Hash) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	info, err := os.Stat(d.path(h))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("blob %s: %w", h.Short(), ErrMissing)
	}
	if err != nil {
		return 0, fmt.Errorf("blob %s: %w", h.Short(), err)
	}
	return uint64(info.Size()), nil
}

func (d *Dir) path(h Hash) string {
	name := h.String()
	return filepath.Join(d.root, name[:2], name[2:])
}
