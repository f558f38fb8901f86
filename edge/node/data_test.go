package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

func TestDataTravelsAsBlobs(t *testing.T) {
	s, path := newSite(t, 1), filepath.Join(t.TempDir(), "data")
	d := s.manifest.GetData()
	if _, err := node.FetchData(t.Context(), s.blobs, d, path); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("a run that offers none: %v", err)
	}
	var err error
	if d.Blobs, err = node.StoreData(t.Context(), s.blobs, text()); err != nil {
		t.Fatal(err)
	}
	if err := manifest.Check(s.manifest); err != nil {
		t.Fatal(err)
	}
	got, err := node.FetchData(t.Context(), s.blobs, d, path)
	if err != nil || got.Hash() != text().Hash() {
		t.Fatalf("fetched: %v", err)
	}
	// What is there is not fetched again; what was damaged is.
	if got, err := node.FetchData(t.Context(), store.NewMemory(0), d, path); err != nil || got.Hash() != text().Hash() {
		t.Errorf("from its file: %v", err)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if got, err := node.FetchData(t.Context(), s.blobs, d, path); err != nil || got.Hash() != text().Hash() {
		t.Errorf("after damage: %v", err)
	}
}

func TestDataThatIsNotTheRunsIsRefused(t *testing.T) {
	s, path := newSite(t, 1), filepath.Join(t.TempDir(), "data")
	d := s.manifest.GetData()
	refs, err := node.StoreData(t.Context(), s.blobs, text())
	if err != nil {
		t.Fatal(err)
	}
	other := message.NewBlob([]byte("another text"))
	if _, err := s.blobs.Put(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		blobs []*message.BlobRef
		want  string
	}{
		"another text":    {[]*message.BlobRef{other.Ref()}, "chunks again"},
		"a missing chunk": {append(refs[:1:1], message.NewBlob([]byte("nowhere")).Ref()), "chunk 2 of 2"},
		"no hash":         {[]*message.BlobRef{{Size: 5}}, "no hash"},
	} {
		d.Blobs = c.blobs
		_, err := node.FetchData(t.Context(), s.blobs, d, path)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := os.Stat(path + ".part"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: half a file is left: %v", name, err)
		}
	}
	for _, bad := range []*message.BlobRef{{Size: 5}, {Hash: make([]byte, 32)}, {Hash: make([]byte, 32), Size: 1 << 30}} {
		d.Blobs = []*message.BlobRef{bad}
		if err := manifest.Check(s.manifest); err == nil {
			t.Errorf("a manifest with blob %v passes", bad)
		}
	}
}
