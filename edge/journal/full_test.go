//go:build linux

package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestFullDiskLosesNothing(t *testing.T) {
	t.Run("no room for the write-ahead file", func(t *testing.T) { fillDisk(t, "size=1m", 600<<10) })
	t.Run("no room to empty it", func(t *testing.T) { fillDisk(t, "size=4m", 2<<20) })
}

func fillDisk(t *testing.T, size string, fill int) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, size); err != nil {
		t.Skipf("needs the right to mount a small disk: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	path := filepath.Join(dir, "j")
	f := mustOpen(t, path)
	defer func() { f.Close() }()
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, fill), 0o644); err != nil {
		t.Fatal(err)
	}
	last, err := uint64(0), error(nil)
	for err == nil && last < 100000 {
		if err = f.Append(records(last+1, last+50)); err == nil {
			last += 50
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("append to a full disk: %v", err)
	}
	if n, err := readAll(f, 1); n != last || err != nil {
		t.Fatalf("%d records of %d: %v", n, last, err)
	}
	if err := f.Append(records(last+1, last+50)); err == nil {
		t.Fatal("the disk is still full")
	}
	if err := f.WriteSnapshot(Snapshot{Seq: last, State: make([]byte, 1<<20)}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("snapshot to a full disk: %v", err)
	}
	f.Close()
	f = mustOpen(t, path)
	if n, err := readAll(f, 1); n != last || err != nil {
		t.Fatalf("reopened: %d records of %d: %v", n, last, err)
	}
	os.Remove(filler)
	if err := f.Append(records(last+1, last+50)); err != nil {
		t.Fatalf("append once there is room: %v", err)
	}
	if n, err := readAll(f, 1); n != last+50 || err != nil {
		t.Fatalf("%d records of %d: %v", n, last+50, err)
	}
}
