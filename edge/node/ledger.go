package node

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/zeebo/blake3"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/protocol/message"
)

// LedgerKey is the key that signs the roots of a run's ledger. It follows from the core's secret, so that a ledger that
// is written again from the journal is the same to the last byte.
func LedgerKey(secret [32]byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	blake3.DeriveKey("iota-train 2026-11 ledger key", secret[:], seed)
	return ed25519.NewKeyFromSeed(seed)
}

// ledgerFile is a run's ledger on disk: the pages that left the core, signed, in order. It follows from the journal
// completely. It is therefore not flushed, and written again when a process or a machine died before it was.
type ledgerFile struct {
	path string
	key  ed25519.PrivateKey
}

// keepLedger opens the ledger's file, if there is to be one.
func (h *Hub) keepLedger() error {
	if h.Ledger == "" {
		return nil
	}
	file, again, err := openLedger(h.Ledger, h.Journal, h.machine)
	if err != nil {
		return err
	}
	if again != nil {
		h.Log.Warn("the ledger was written again from the journal", "why", again)
	}
	h.ledger = file
	h.machine.page = func(page []byte) { h.pages = append(h.pages, page) }
	return nil
}

// writeLedger appends the pages whose events are durable now. A file that somebody removed meanwhile is written again: no
// run ends for it. One that does not fit is written again when there is room.
func (h *Hub) writeLedger(ctx context.Context) error {
	pages := h.pages
	if h.pages = nil; len(pages) == 0 {
		return nil
	}
	err := h.ledger.write(pages)
	if isFull(err) {
		return h.patiently(ctx, func() error { return h.ledger.rewrite(h.Journal) })
	}
	if errors.Is(err, fs.ErrNotExist) {
		h.Log.Warn("the ledger was removed: it is written again from the journal")
		err = h.ledger.rewrite(h.Journal)
	}
	return err
}

// openLedger opens the ledger of a journal's run behind the machine's last event. It is written again from the journal
// unless it holds exactly the pages up to there; the reason is returned where a file was there.
func openLedger(path string, j Journal, m *machine) (l *ledgerFile, again, err error) {
	_, secret, err := Genesis(j)
	if err != nil {
		return nil, nil, err
	}
	l = &ledgerFile{path: path, key: LedgerKey(secret)}
	if again = l.check(m); again == nil {
		return l, nil, nil
	}
	if err := l.rewrite(j); err != nil {
		return nil, nil, fmt.Errorf("ledger: %w", err)
	}
	if errors.Is(again, fs.ErrNotExist) {
		again = nil
	}
	return l, again, nil
}

// check returns an error unless the file holds the pages up to the machine's last event.
func (l *ledgerFile) check(m *machine) error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := ReadLedger(f)
	if err != nil {
		return err
	}
	have := &m.core.Books.Ledger
	if !l.key.Public().(ed25519.PublicKey).Equal(r.Key) || r.Closings != have.Closings || !bytes.Equal(r.Root, have.Root) {
		return fmt.Errorf("it ends with page %d, the journal with page %d", r.Closings, have.Closings)
	}
	return nil
}

// rewrite replays the journal from its beginning and replaces the file.
func (l *ledgerFile) rewrite(j Journal) error {
	m, err := newMachine(j)
	if err != nil {
		return err
	}
	temp := l.path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer os.Remove(temp) // in vain once it was renamed
	w := bufio.NewWriter(f)
	_, _ = w.Write(ledger.Header(message.Hash(m.manifest), l.key)) // the first error stays, Flush returns it
	m.page = func(page []byte) { _, _ = w.Write(ledger.Sign(page, l.key)) }
	err = j.Read(1, m.replay)
	if e := w.Flush(); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(temp, l.path)
	}
	return err
}

// write appends pages. The events that they follow from are durable.
func (l *ledgerFile) write(pages [][]byte) error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0)
	for _, page := range pages {
		if err == nil {
			_, err = f.Write(ledger.Sign(page, l.key))
		}
	}
	if f != nil {
		if e := f.Close(); err == nil {
			err = e
		}
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// ReadLedger checks a stored ledger and returns its books. The error names the first line and entry that do not hold.
func ReadLedger(from io.Reader) (*ledger.Reader, error) {
	const longest = 1 << 16 // bytes of a line
	var r ledger.Reader
	in := bufio.NewReaderSize(from, longest)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			return &r, r.End()
		case err == io.EOF:
			return &r, fmt.Errorf("after %d entries: the last line is not whole", r.Entries)
		case err == bufio.ErrBufferFull:
			return &r, fmt.Errorf("after %d entries: a line is longer than %d bytes", r.Entries, longest)
		case err != nil:
			return &r, err
		}
		if err := r.Line(line[:len(line)-1]); err != nil {
			return &r, err
		}
	}
}

// CompareLedger returns an error unless a stored ledger ends where the journal of its run does, and is signed by its key.
func CompareLedger(j Journal, r *ledger.Reader) error {
	_, secret, err := Genesis(j)
	if err != nil {
		return err
	}
	m, err := resume(j)
	if err != nil {
		return err
	}
	have := &m.core.Books.Ledger
	switch {
	case !bytes.Equal(r.Manifest, message.Hash(m.manifest)) || !LedgerKey(secret).Public().(ed25519.PublicKey).Equal(r.Key):
		return fmt.Errorf("header: it is the ledger of another run, or signed with another key: %w", journal.ErrDamaged)
	case r.Closings != have.Closings || !bytes.Equal(r.Root, have.Root):
		return fmt.Errorf("page %d: the journal leads to page %d with root %x: %w", r.Closings, have.Closings, have.Root[:4], journal.ErrDamaged)
	}
	return nil
}
