package node

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFileReplacesFilesOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"longer at first", "short"} {
		if err := WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Fatalf("%q, %v", b, err)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pipe := fmt.Sprintf("/dev/fd/%d", w.Fd())
	if _, err := os.Stat(pipe); err != nil {
		t.Skipf("needs pipes with names: %v", err)
	}
	if err := WriteFile(pipe, []byte("through"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Close()
	b := make([]byte, 20)
	if n, _ := r.Read(b); string(b[:n]) != "through" {
		t.Fatalf("%q", b[:n])
	}
	if info, err := os.Stat(pipe); err == nil && info.Mode()&fs.ModeNamedPipe == 0 {
		t.Fatal("the pipe was replaced")
	}
}
