//go:build unix

package data

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A named pipe stands for all that is no file: what lies under /dev differs between machines, and in a container even
// the null device may be a plain file.
func TestOpenRefusesAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.txt")
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open([]string{path}, tokenizer(t, Bytes)); err == nil || !strings.Contains(err.Error(), "is a device or a pipe") {
		t.Errorf("got %v", err)
	}
}
