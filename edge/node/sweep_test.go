package node_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// named returns every blob that a journalled receipt names as its output.
func (s *site) named() map[store.Hash]bool {
	s.t.Helper()
	all := map[store.Hash]bool{}
	err := s.journal.Read(1, func(r journal.Record) error {
		var e message.Event
		if err := message.Decode(r.Event, &e); err != nil || e.GetResult() == nil {
			return err
		}
		receipt, err := e.GetResult().Open()
		if err == nil && receipt.GetTask().GetKind().Stored() && receipt.GetFault() == message.Fault_FAULT_NONE {
			for _, ref := range receipt.GetOutputs() {
				all[store.Hash(ref.GetHash())] = true
			}
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// checkHeld fails if the run holds a blob that was stored once and is not any more.
func (s *site) checkHeld(h *node.Hub) {
	s.t.Helper()
	held := 0
	for hash := range s.named() {
		if !h.Holds(hash) {
			continue
		}
		held++
		if ok, err := s.blobs.Has(s.t.Context(), hash); !ok || err != nil {
			s.t.Fatalf("blob %s is held and gone: %v", hash.Short(), err)
		}
	}
	if held == 0 {
		s.t.Error("the run holds nothing")
	}
}

func TestSweepRemovesExactlyWhatACrashLeftBehind(t *testing.T) {
	s, path := newSite(t, 3), t.TempDir()
	dir, err := store.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	s.blobs = dir
	if s.manifest.Data.Blobs, err = node.StoreData(t.Context(), dir, text()); err != nil {
		t.Fatal(err)
	}
	s.journal = &dying{Memory: journal.NewMemory()}
	if err := node.Begin(s.journal, s.manifest, [32]byte{9}); err != nil {
		t.Fatal(err)
	}
	h := s.open()
	s.journal.die = func() bool { return h.View().Phase == orchestrator.Reducing && h.View().Epoch == 1 }
	s.start(4)
	if err := s.serve(h); !errors.Is(err, errDied) {
		t.Fatalf("it did not die: %v", err)
	}
	s.leave()
	s.journal.die = nil

	// Everything is older than the grace, but for one blob that somebody is about to name.
	for i := range 20 {
		if _, err := dir.Put(t.Context(), message.NewBlob([]byte{1, byte(i)})); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-24 * time.Hour)
	err = dir.Each(t.Context(), func(i store.Info) error {
		name := i.Hash.String()
		return os.Chtimes(filepath.Join(path, name[:2], name[2:]), old, old)
	})
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := dir.Put(t.Context(), message.NewBlob([]byte("on its way")))
	if err != nil {
		t.Fatal(err)
	}
	h = s.open()
	offered, want := map[store.Hash]bool{}, map[store.Hash]bool{fresh: true}
	for _, ref := range s.manifest.Data.Blobs {
		offered[store.Hash(ref.GetHash())] = true
	}
	err = dir.Each(t.Context(), func(i store.Info) error {
		if offered[i.Hash] || h.Holds(i.Hash) {
			want[i.Hash] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Sweep(t.Context())
	left := 0
	err = dir.Each(t.Context(), func(i store.Info) error {
		if left++; !want[i.Hash] {
			t.Errorf("blob %s of %d bytes stays", i.Hash.Short(), i.Size)
		}
		return nil
	})
	if err != nil || left != len(want) || left < 2 {
		t.Errorf("%d blobs are left, want %d: %v", left, len(want), err)
	}
	s.checkHeld(h)
	s.start(4)
	if err := s.serve(h); err != nil {
		t.Fatal(err)
	}
	s.leave()
	s.check(h)
	s.checkHeld(h)
}

// Without any grace, blobs on their way are swept too: their miners compute again. What a receipt named stays even so.
func TestSweepNeverRemovesWhatTheRunHolds(t *testing.T) {
	s := newSite(t, 2)
	s.grace = time.Nanosecond
	h := s.open()
	n, sweeps := 0, 0
	s.journal.die = func() bool {
		if n++; n%10 == 0 && len(s.named()) > 0 {
			h.Sweep(t.Context())
			s.checkHeld(h)
			sweeps++
		}
		return false
	}
	s.start(4)
	if err := s.serve(h); err != nil {
		t.Fatal(err)
	}
	s.leave()
	s.consistent(h)
	s.checkHeld(h)
	if sweeps < 3 {
		t.Errorf("only %d sweeps", sweeps)
	}
}

// A pointer is published only to a checkpoint that was read and hashed: its sender's word is not enough.
func TestCheckpointWithOtherContentIsRefusedAndRemoved(t *testing.T) {
	path := t.TempDir()
	dir, err := store.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := hubOf(t, func(s *site) { s.blobs = dir })
	hash, err := dir.Put(t.Context(), message.NewBlob([]byte("a checkpoint")))
	if err != nil {
		t.Fatal(err)
	}
	name := hash.String()
	if err := os.WriteFile(filepath.Join(path, name[:2], name[2:]), []byte("other things"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := s.dial(0)
	c.register(1)
	if c.next().GetWelcome() == nil {
		t.Fatal("no welcome")
	}
	r := &message.Receipt{Task: &message.TaskID{Kind: message.TaskKind_UPLOAD}, Session: bytes.Repeat([]byte{1}, 16),
		Outputs: []*message.BlobRef{{Hash: hash[:], Size: 12}}}
	c.send(&message.Envelope{Kind: &message.Envelope_Result{Result: message.Sign(key(0), r)}})
	c.closed()
	if ok, err := dir.Has(t.Context(), hash); ok || err != nil || s.results() != 0 {
		t.Errorf("it stays, or %d results were journalled: %v", s.results(), err)
	}
}

// A miner that names a blob of the run's data as its output does not get it deleted with its outputs.
func TestDataBlobsAreHeld(t *testing.T) {
	s := newSite(t, 1)
	var err error
	if s.manifest.Data.Blobs, err = node.StoreData(t.Context(), s.blobs, text()); err != nil {
		t.Fatal(err)
	}
	s.journal = &dying{Memory: journal.NewMemory()}
	if err := node.Begin(s.journal, s.manifest, [32]byte{9}); err != nil {
		t.Fatal(err)
	}
	h := s.open()
	for _, ref := range s.manifest.Data.Blobs {
		if !h.Holds(store.Hash(ref.GetHash())) {
			t.Errorf("%x is not held", ref.GetHash())
		}
	}
}
