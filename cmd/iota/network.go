package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
	"github.com/iota-train/iota/role/miner"
	"github.com/iota-train/iota/role/validator"
)

// blobs is what the orchestrator's process needs of its store.
type blobs interface {
	node.HubBlobs
	node.Blobs
}

// network is an orchestrator and its miners in one process.
type network struct {
	manifest   *message.Manifest
	journal    node.Journal
	blobs      blobs
	text       *data.Dataset
	keys       []ed25519.PrivateKey // one per miner
	validators []ed25519.PrivateKey // one per validator
	folder     func(i int) string   // of miner i's state; "" for none
	ledger     string               // path of the ledger; "" for none
	liars      []misbehaviour
	link       transport.Link
	log        *slog.Logger

	hub      *node.Hub
	numerics kernel.Numerics // the manifest's
}

// open takes up the run of the journal.
func (n *network) open() (err error) {
	if n.numerics, err = kernel.ParseNumerics(n.manifest.GetNumerics()); err != nil {
		return err
	}
	n.hub, err = node.OpenHub(node.HubConfig{Journal: n.journal, Blobs: n.blobs, Ledger: n.ledger, Log: n.log})
	return err
}

// run trains until the run is finished or ctx ends; quit ends it early, but cleanly.
func (n *network) run(ctx context.Context, quit <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	links := transport.NewNetwork(n.link)
	listener, err := links.Listen()
	if err != nil {
		return err
	}
	var miners sync.WaitGroup
	miners.Go(func() { n.startMiners(ctx, cancel, links, &miners) })
	stopped := make(chan struct{})
	go func() {
		select {
		case <-quit:
			n.hub.Stop(true)
		case <-stopped:
		}
	}()
	err = n.hub.Serve(ctx, listener)
	close(stopped)
	listener.Close()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(err)
	}
	// The miners have been told; one that was dialling meanwhile is not waited for.
	timer := time.AfterFunc(2*time.Second, func() { cancel(nil) })
	miners.Wait()
	timer.Stop()
	return err
}

// threads is how many each miner computes with.
func (n *network) threads() int { return max(1, cores/len(n.keys)) }

// memory is the most that a miner of each stage holds, in bytes.
func (n *network) memory() []int {
	return memoryOf(n.manifest, n.threads(), len(n.keys)/len(n.manifest.GetModel().GetCuts()))
}

// memoryOf is the most that a miner of each stage holds, in bytes, with so many threads and so many miners in a stage.
func memoryOf(m *message.Manifest, threads, perStage int) []int {
	c := manifest.Shape(m)
	bytes := make([]int, c.Stages())
	for stage := range bytes {
		bytes[stage] = miner.MemoryOf(c, m.GetRules(), stage, threads, perStage).Total()
	}
	return bytes
}

// startMiners starts one miner after the other, so that their numbers are those of the keys, and then the validators.
func (n *network) startMiners(ctx context.Context, cancel context.CancelCauseFunc, links *transport.Network, miners *sync.WaitGroup) {
	threads := n.threads()
	gate := node.NewGate(cores / threads)
	for i, key := range slices.Concat(n.keys, n.validators) {
		joined := make(chan struct{})
		ended := make(chan struct{})
		m, engine := n.miner(i, key, threads, gate, links)
		m.Joined = func() { close(joined) }
		miners.Go(func() {
			defer engine.Close()
			defer close(ended)
			if err := m.Run(ctx); err != nil && ctx.Err() == nil {
				n.minerFailed(n.name(i), err, cancel)
			}
		})
		select {
		case <-joined:
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}

// minerFailed ends the run when a miner could not write or read; a miner that was refused or withdrawn only leaves.
func (n *network) minerFailed(name string, err error, cancel context.CancelCauseFunc) {
	if errors.Is(err, node.ErrRefused) {
		n.log.Warn(name+" left", "err", err)
		return
	}
	cancel(fmt.Errorf("%s: %w", name, err))
}

// name is how people call participant i: validators come after the miners.
func (n *network) name(i int) string {
	if i >= len(n.keys) {
		return fmt.Sprintf("validator %d", i-len(n.keys)+1)
	}
	return fmt.Sprintf("miner %d", i+1)
}

func (n *network) miner(i int, key ed25519.PrivateKey, threads int, gate node.Gate, links *transport.Network) (*node.Miner, *kernel.Engine) {
	name := string(key.Public().(ed25519.PublicKey))
	engine := kernel.NewFor(n.numerics, threads)
	c := node.MinerConfig{
		Dial:  func(ctx context.Context) (transport.Conn, error) { return links.Dial(ctx, name) },
		Blobs: n.blobs, Gate: gate, Numerics: string(engine.Numerics()), Log: n.log.With("miner", i+1),
	}
	if slices.ContainsFunc(n.liars, func(l misbehaviour) bool { return l.miner == i && l.kind == slow }) {
		c.Gate = node.NewGate(1)
	}
	if n.link != (transport.Link{}) {
		c.Blobs = transport.NewShaped[store.Hash](n.blobs, links.Link(name))
	}
	if i >= len(n.keys) {
		c.Role, c.Log = message.Role_VALIDATOR, n.log.With("validator", i-len(n.keys)+1)
		c.Start = func(session []byte) (node.Worker, error) {
			v, err := validator.New(n.manifest, key, session, n.text, engine)
			if err != nil {
				return nil, err
			}
			return wrap(n.liars, i, n.manifest, n.keys, key, v)
		}
		return node.NewMiner(c), engine
	}
	state := ""
	if n.folder != nil {
		state = filepath.Join(n.folder(i), stateName)
		c.Save = saver(state)
	}
	c.Start = func(session []byte) (node.Worker, error) {
		m, err := startMiner(n.manifest, key, session, n.text, engine, state, c.Log)
		if err != nil {
			return nil, err
		}
		return wrap(n.liars, i, n.manifest, n.keys, key, m)
	}
	return node.NewMiner(c), engine
}

// startMiner makes a miner that goes on from the state in a file, if there is one.
func startMiner(m *message.Manifest, key ed25519.PrivateKey, session []byte, text *data.Dataset, engine *kernel.Engine,
	state string, log *slog.Logger) (*miner.Miner, error) {
	w, err := miner.New(m, key, session, text, engine)
	if err != nil {
		return nil, err
	}
	if err := restore(w, state); err != nil {
		log.Warn("the miner starts without its saved state", "err", err)
	}
	return w, nil
}

// saver keeps a miner's private state in a file.
func saver(path string) func([]byte) error {
	return func(b []byte) error { return node.WriteFile(path, b, 0o600) }
}

// restore gives a miner the private state of its last install, if there is one.
func restore(m *miner.Miner, path string) error {
	if path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return m.Restore(b)
}
