package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/store"
)

// A run's folder:
//
//	journal.db, journal.db.*  the orchestrator's events, with its secret
//	ledger                    who earned what: signed lines of text (iota ledger)
//	blobs/                    activations, shares, checkpoints
//	key                       of the orchestrator, if others join the run
//	miners/N/key, state       of each miner, if they are in the same process
//	validators/N/key          of each validator, likewise
//	run.json                  what it is, for people
//	lock                      held by the process that keeps the journal in a database
//
// The journal may be in a database instead, and the blobs in a bucket.
type folder struct {
	path    string
	journal node.Journal
	blobs   blobs
	closers []func()
}

// openFolder opens a run's folder that has its journal and its blobs in it, or makes one. The journal is its lock.
func openFolder(path string) (*folder, error) {
	return new(place).open(context.Background(), path, slog.New(slog.DiscardHandler))
}

// errNoJournal says that a folder has none.
var errNoJournal = errors.New("holds no run's journal")

// openJournal opens the journal of a folder that holds a run, and makes none.
func openJournal(path string) (*journal.File, error) {
	file := filepath.Join(path, journalName)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s %w: name the --dir of an iota up, or of an iota orchestrator without --journal", path, errNoJournal)
	}
	j, err := journal.Open(file)
	return j, explain(err)
}

const (
	journalName = "journal.db"
	ledgerName  = "ledger"
	keyName     = "key"
	runName     = "run.json"
	stateName   = "state"
)

// explain adds to an error what the user can do about it.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, journal.ErrInUse):
		return fmt.Errorf("%w: stop it first, or use another --dir", err)
	case errors.Is(err, journal.ErrForeign):
		return fmt.Errorf("%w: use another --dir", err)
	case errors.Is(err, journal.ErrDamaged), errors.Is(err, node.ErrDiverged):
		return fmt.Errorf("%w: nothing was changed; bring back a copy of the folder, or use another --dir", err)
	case errors.Is(err, store.ErrFull), strings.Contains(err.Error(), "no space left on device"):
		return fmt.Errorf("%w: nothing that was stored is lost; free some space and run the same command again", err)
	}
	return err
}

// usable refuses a folder with other things in it.
func usable(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(entries) == 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: choose another --dir", err)
	}
	if _, err := os.Stat(filepath.Join(path, journalName)); err == nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(path, runName)); err == nil {
		return fmt.Errorf("%s is a run's, but its journal is not there: bring it back, name the database that has it with iota orchestrator --journal, or choose another --dir", path)
	}
	known := []string{"miners", "validators", "blobs", "lock", keyName}
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) && !strings.HasPrefix(e.Name(), journalName) {
			return fmt.Errorf("%s is not empty and holds no run: choose another --dir", path)
		}
	}
	return nil
}

// close gives up what was opened, last things first.
func (f *folder) close() {
	for _, c := range slices.Backward(f.closers) {
		c()
	}
}

func (f *folder) miner(i int) string { return filepath.Join(f.path, "miners", strconv.Itoa(i+1)) }

func (f *folder) validator(i int) string {
	return filepath.Join(f.path, "validators", strconv.Itoa(i+1))
}

// keys returns the keys of n miners or validators, whose folders are given.
func (f *folder) keys(place func(int) string, n int, fresh func(int) ed25519.PrivateKey) ([]ed25519.PrivateKey, error) {
	var keys []ed25519.PrivateKey
	for i := range n {
		key, err := loadKey(filepath.Join(place(i), keyName), func() ed25519.PrivateKey { return fresh(i) })
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(keys, func(k ed25519.PrivateKey) bool { return k.Equal(key) }) {
			return nil, fmt.Errorf("%s is the key of another miner too: remove it to give the miner a new one", filepath.Join(place(i), keyName))
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// runFile is run.json.
type runFile struct {
	Run    string  `json:"run"`
	Preset string  `json:"preset"`
	Seed   *uint64 `json:"seed,omitempty"` // of the command line
	Miners int     `json:"miners"`
	Stages int     `json:"stages"`
	Join   string  `json:"join,omitempty"` // of the orchestrator that serves it, or did last
}

func (f *folder) describe(r runFile) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return node.WriteFile(filepath.Join(f.path, runName), append(b, '\n'), 0o644)
}
