package node_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
	"github.com/iota-train/iota/role/miner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// text is opened once for all tests.
var text = sync.OnceValue(func() *data.Dataset {
	tokenizer, err := data.NewTokenizer(data.Bytes)
	if err != nil {
		panic(err)
	}
	d, err := data.Sample(tokenizer)
	if err != nil {
		panic(err)
	}
	return d
})

// blobs is a store as both sides see it.
type blobs interface {
	node.HubBlobs
	node.Blobs
}

// site is a run of the smallest model: a journal, a store and a network that outlive hubs and miners.
type site struct {
	t        *testing.T
	manifest *message.Manifest
	journal  *dying
	blobs    blobs
	grace    time.Duration
	log      *slog.Logger
	links    *transport.Network
	gate     node.Gate
	ledger   string   // its file
	states   [][]byte // saved private states of the miners

	drivers []*node.Miner // of the miners that were started last

	mu     sync.Mutex
	miners sync.WaitGroup
	cancel context.CancelFunc
}

func newSite(t *testing.T, epochs uint32) *site {
	t.Helper()
	shape, err := model.Preset("nano")
	if err != nil {
		t.Fatal(err)
	}
	hash := text().Hash()
	m := &message.Manifest{
		Run: "test", Preset: "nano", Numerics: string(kernel.F32), Model: manifest.Model(shape), Rules: manifest.DefaultRules(),
		Data: &message.Data{Tokenizer: data.Bytes, Hash: hash[:], Seed: 7},
	}
	m.Rules.Epochs, m.Rules.InnerSteps, m.Rules.HeldOut = epochs, 3, 4
	s := &site{
		t: t, manifest: m, journal: &dying{Memory: journal.NewMemory()}, blobs: store.NewMemory(1 << 30),
		links: transport.NewNetwork(transport.Link{}), gate: node.NewGate(2), states: make([][]byte, 16),
		ledger: filepath.Join(t.TempDir(), "ledger"), log: quiet,
	}
	if err := node.Begin(s.journal, m, [32]byte{9}); err != nil {
		t.Fatal(err)
	}
	return s
}

// open takes up the run as a new process would.
func (s *site) open() *node.Hub {
	s.t.Helper()
	h, err := node.OpenHub(node.HubConfig{Journal: s.journal, Blobs: s.blobs, Ledger: s.ledger, Grace: s.grace, Log: s.log})
	if err != nil {
		s.t.Fatal(err)
	}
	return h
}

// serve runs a hub until the run is finished or something ends it.
func (s *site) serve(h *node.Hub) error {
	s.t.Helper()
	l, err := s.links.Listen()
	if err != nil {
		s.t.Fatal(err)
	}
	defer l.Close()
	return h.Serve(context.Background(), l)
}

func key(i int) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = byte(i + 1)
	return ed25519.NewKeyFromSeed(seed)
}

func public(i int) string { return string(key(i).Public().(ed25519.PublicKey)) }

// start runs n miners until the run is finished or leave is called.
func (s *site) start(n int) {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.drivers = cancel, nil
	for i := range n {
		engine := kernel.New(1)
		m := node.NewMiner(node.MinerConfig{
			Dial:  func(ctx context.Context) (transport.Conn, error) { return s.links.Dial(ctx, public(i)) },
			Blobs: s.blobs, Gate: s.gate, Numerics: string(kernel.F32), Log: quiet,
			Start: func(session []byte) (node.Worker, error) {
				m, err := miner.New(s.manifest, key(i), session, text(), engine)
				if err != nil {
					return nil, err
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				return m, m.Restore(s.states[i])
			},
			Save: func(b []byte) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.states[i] = b
				return nil
			},
		})
		s.drivers = append(s.drivers, m)
		s.miners.Go(func() {
			if err := m.Run(ctx); err != nil && ctx.Err() == nil {
				s.t.Errorf("miner %d: %v", i+1, err)
			}
		})
	}
}

// play opens the hub, has n miners take part until the run ends, and returns it.
func (s *site) play(n int) *node.Hub {
	s.t.Helper()
	h := s.open()
	s.start(n)
	if err := s.serve(h); err != nil {
		s.t.Fatal(err)
	}
	s.leave()
	return h
}

// leave ends the miners. After the end of a run some may not have heard of it: those that were dialling.
func (s *site) leave() {
	s.cancel()
	s.miners.Wait()
}

// check verifies the journal and the books of the run.
func (s *site) check(h *node.Hub) {
	s.t.Helper()
	s.consistent(h)
	for _, st := range h.View().Stages {
		if st.Merged == 0 {
			s.t.Errorf("stage %d: nothing of %d acknowledged was merged", st.Index, st.Acknowledged)
		}
	}
}

// consistent is check for a run in which whole epochs may come to nothing.
func (s *site) consistent(h *node.Hub) {
	s.t.Helper()
	v := h.View()
	if !v.Finished || v.Epoch != uint64(s.manifest.GetRules().GetEpochs()) {
		s.t.Errorf("finished %v after %d epochs: %s", v.Finished, v.Epoch, v.Reason)
	}
	for _, st := range v.Stages {
		if st.Merged+st.Unmerged != st.Acknowledged {
			s.t.Errorf("stage %d: %d acknowledged, %d merged, %d unmerged", st.Index, st.Acknowledged, st.Merged, st.Unmerged)
		}
	}
	s.checkLedger()
	got, err := node.Verify(s.journal)
	if err != nil {
		s.t.Fatal(err)
	}
	if got.Chain != h.Chain() || got.Events != s.journal.LastSeq() {
		s.t.Errorf("verified %d events to %x, the run made %d to %x", got.Events, got.Chain, s.journal.LastSeq(), h.Chain())
	}
}

// dying is a journal whose process dies at a moment that the test chooses.
type dying struct {
	*journal.Memory
	die   func() bool // asked before a group is written
	after bool        // dies after writing the group, before anything leaves
	full  func() bool // asked before: no room
}

var errDied = errDying{}

type errDying struct{}

func (errDying) Error() string { return "died" }

func (d *dying) Append(batch []journal.Record) error {
	if d.full != nil && d.full() {
		return fmt.Errorf("write: %w", syscall.ENOSPC)
	}
	dies := d.die != nil && d.die()
	if dies && !d.after {
		return errDied
	}
	err := d.Memory.Append(batch)
	if err == nil && dies {
		return errDied
	}
	return err
}
