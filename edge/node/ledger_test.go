package node_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/node"
)

// checkLedger holds the stored ledger against the journal: the same pages, the same root, signed with the run's key.
func (s *site) checkLedger() {
	s.t.Helper()
	f, err := os.Open(s.ledger)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	r, err := node.ReadLedger(f)
	if err == nil {
		err = node.CompareLedger(s.journal, r)
	}
	if err != nil {
		s.t.Error(err)
	}
	if r.Issued == 0 || r.Issued != r.Paid+r.Escrow+r.Burned {
		s.t.Errorf("issued %d, paid %d, in escrow %d, burned %d", r.Issued, r.Paid, r.Escrow, r.Burned)
	}
}

// storedLedger returns the ledger's file.
func (s *site) storedLedger() []byte {
	s.t.Helper()
	b, err := os.ReadFile(s.ledger)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func TestTheLedgerIsWrittenAgainFromTheJournalToTheLastByte(t *testing.T) {
	s := newSite(t, 3)
	s.play(3)
	whole := s.storedLedger()
	for name, damage := range map[string]func() error{
		"gone":  func() error { return os.Remove(s.ledger) },
		"empty": func() error { return os.WriteFile(s.ledger, nil, 0o644) },
		"torn":  func() error { return os.WriteFile(s.ledger, whole[:len(whole)-100], 0o644) },
		"shorter": func() error {
			return os.WriteFile(s.ledger, whole[:bytes.Index(whole, []byte("\n{\"entry\":"))+1], 0o644)
		},
		"changed": func() error {
			return os.WriteFile(s.ledger, bytes.Replace(whole, []byte(`"of":1`), []byte(`"of":2`), 1), 0o644)
		},
		"longer": func() error { return os.WriteFile(s.ledger, append(bytes.Clone(whole), "junk"...), 0o644) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		s.open()
		if got, err := os.ReadFile(s.ledger); err != nil || !bytes.Equal(got, whole) {
			t.Errorf("%s: %v, %d bytes, not those %d that were there", name, err, len(got), len(whole))
		}
	}
	if _, err := os.Stat(s.ledger + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was left behind: %v", err)
	}
}

func TestARunGoesOnThoughItsLedgerIsRemoved(t *testing.T) {
	s := newSite(t, 2)
	h := s.open()
	if err := os.Remove(s.ledger); err != nil {
		t.Fatal(err)
	}
	s.start(3)
	if err := s.serve(h); err != nil {
		t.Fatal(err)
	}
	s.leave()
	s.checkLedger()
}

func TestALedgerThatEndsElsewhereThanItsJournalIsFound(t *testing.T) {
	s := newSite(t, 2)
	s.play(3)
	whole := s.storedLedger()
	lines := strings.SplitAfter(string(whole), "\n")
	for i, line := range lines { // a ledger that ends with its first page is sound, but not the run's
		if strings.HasPrefix(line, `{"signature"`) {
			r, err := node.ReadLedger(strings.NewReader(strings.Join(lines[:i+1], "")))
			if err != nil {
				t.Fatal(err)
			}
			if err := node.CompareLedger(s.journal, r); !errors.Is(err, journal.ErrDamaged) {
				t.Errorf("a page is missing: %v", err)
			}
			break
		}
	}
	r, err := node.ReadLedger(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	r.Key = node.LedgerKey([32]byte{1}).Public().(ed25519.PublicKey)
	if err := node.CompareLedger(s.journal, r); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("signed with another key: %v", err)
	}
}
