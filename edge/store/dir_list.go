package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Delete removes the blob. Deleting one that is not there succeeds.
func (d *Dir) Delete(h Hash) error {
	_, err := d.remove(h, func(fs.FileInfo) bool { return true })
	return err
}

// DeleteBefore removes the blob if it was last put before that time, and reports whether it did.
func (d *Dir) DeleteBefore(h Hash, before time.Time) (bool, error) {
	return d.remove(h, func(info fs.FileInfo) bool { return info.ModTime().Before(before) })
}

// remove removes the blob if its file is as wanted. No Put of the same blob can end in between.
func (d *Dir) remove(h Hash, wanted func(fs.FileInfo) bool) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := d.path(h)
	info, err := os.Stat(path)
	if err == nil && !wanted(info) {
		return false, nil
	}
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("delete blob %s: %w", h.Short(), err)
	}
	d.used -= uint64(info.Size())
	return true, nil
}

// Usage returns the bytes of all blobs.
func (d *Dir) Usage() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

// Each calls fn with every blob, in order of hash, and stops at its first error. fn may call the store.
func (d *Dir) Each(ctx context.Context, fn func(Info) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	all, err := d.scan()
	if err != nil {
		return fmt.Errorf("list store %s: %w", d.root, err)
	}
	return each(all, fn)
}

// scan lists the files that are named like blobs.
func (d *Dir) scan() ([]Info, error) {
	folders, err := os.ReadDir(d.root)
	if err != nil {
		return nil, err
	}
	var all []Info
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
			all = append(all, Info{h, uint64(info.Size()), info.ModTime()})
		}
	}
	return all, nil
}
