package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/iota-train/iota/protocol/message"
)

// Dir is a store in a folder: blob 3fa1... is the file 3f/a1.... Blobs are written to a temporary file and renamed, so a
// process killed at any moment leaves no half blob under a hash. One process at a time may own the folder; within it all
// methods may be called by many goroutines.
type Dir struct {
	root string
	// create opens a new temporary file; tests replace it to inject failing disks.
	create func(dir string) (file, error)

	mu   sync.Mutex // guards used and the step from "is it there" to "it is there"
	used uint64
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
	d := &Dir{root: path, create: func(dir string) (file, error) { return os.CreateTemp(dir, "blob-*") }}
	all, err := d.scan()
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	for _, e := range all {
		d.used += e.size
	}
	return d, nil
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
	if err := d.write(h, b, durable); err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return Hash{}, fmt.Errorf("store blob %s of %d bytes in %s: no space left on disk: %w",
				h.Short(), len(b), d.root, ErrFull)
		}
		return Hash{}, fmt.Errorf("store blob %s: %w", h.Short(), err)
	}
	return h, nil
}

// holds reports whether the file of h is there with the very bytes of b.
func (d *Dir) holds(h Hash, b []byte) bool {
	info, err := os.Stat(d.path(h))
	if err != nil || info.Size() != int64(len(b)) {
		return false
	}
	stored, err := os.ReadFile(d.path(h))
	return err == nil && bytes.Equal(stored, b)
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

// Delete removes the blob. Deleting one that is not there succeeds.
func (d *Dir) Delete(h Hash) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := d.path(h)
	info, err := os.Stat(path)
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete blob %s: %w", h.Short(), err)
	}
	d.used -= uint64(info.Size())
	return nil
}

// Usage returns the bytes of all blobs.
func (d *Dir) Usage() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

// Each calls fn with every blob's hash and size in bytes, in order of hash, and stops at its first error. fn may call
// the store.
func (d *Dir) Each(fn func(Hash, uint64) error) error {
	all, err := d.scan()
	if err != nil {
		return fmt.Errorf("list store %s: %w", d.root, err)
	}
	return each(all, fn)
}

// scan lists the files that are named like blobs.
func (d *Dir) scan() ([]entry, error) {
	folders, err := os.ReadDir(d.root)
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, folder := range folders {
		if !folder.IsDir() || len(folder.Name()) != 2 {
			continue
		}
		files, err := os.ReadDir(filepath.Join(d.root, folder.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			h, err := ParseHash(folder.Name() + f.Name())
			if err != nil || !f.Type().IsRegular() {
				continue
			}
			info, err := f.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // deleted meanwhile
			}
			if err != nil {
				return nil, err
			}
			all = append(all, entry{h, uint64(info.Size())})
		}
	}
	return all, nil
}

func (d *Dir) path(h Hash) string {
	name := h.String()
	return filepath.Join(d.root, name[:2], name[2:])
}
