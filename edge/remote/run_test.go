package remote

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

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

// sample is the text that every run of these tests trains on.
var sample = sync.OnceValue(func() *data.Dataset {
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

// hub returns the orchestrator of a small run, and its journal and store.
func hub(t *testing.T) (*node.Hub, *journal.Memory, *store.Memory, *message.Manifest) {
	t.Helper()
	shape, err := model.Preset("nano")
	if err != nil {
		t.Fatal(err)
	}
	hash := sample().Hash()
	m := &message.Manifest{
		Run: "test", Preset: "nano", Numerics: string(kernel.F32), Model: manifest.Model(shape), Rules: manifest.DefaultRules(),
		Data: &message.Data{Tokenizer: data.Bytes, Hash: hash[:], Seed: 7},
	}
	m.Rules.Epochs, m.Rules.InnerSteps, m.Rules.HeldOut = 2, 3, 4
	j, blobs := journal.NewMemory(), store.NewMemory(1<<30)
	if err := node.Begin(j, m, [32]byte{9}); err != nil {
		t.Fatal(err)
	}
	h, err := node.OpenHub(node.HubConfig{Journal: j, Blobs: blobs, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return h, j, blobs, m
}

// twice sends every message but the first twice.
type twice struct {
	transport.Conn
	registered bool
}

func (c *twice) Send(ctx context.Context, b []byte) error {
	if err := c.Conn.Send(ctx, b); err != nil || !c.registered {
		c.registered = true
		return err
	}
	return c.Conn.Send(ctx, b)
}

// TestRunOverTheNetwork trains across miners whose connections break now and then, and that say everything twice.
func TestRunOverTheNetwork(t *testing.T) {
	h, j, blobs, m := hub(t)
	s := open(t, func(c *ServerConfig) { c.Blobs, c.Manifest = blobs, message.Encode(m) })
	ctx, cancel := context.WithCancel(t.Context())
	var miners sync.WaitGroup
	defer miners.Wait()
	defer cancel()
	gate := node.NewGate(2)
	for i := range 2 * len(m.GetModel().GetCuts()) {
		w := lay(t, s.address.Host, breaking{up: 200_000}, breaking{down: 300_000}, breaking{up: 400_000})
		name := fmt.Sprint("miner ", i)
		client := dial(t, Address{Key: s.address.Key, Host: w.Addr().String()}, name)
		engine := kernel.New(1)
		one := node.NewMiner(node.MinerConfig{
			Dial: func(ctx context.Context) (transport.Conn, error) {
				conn, err := client.Connect(ctx)
				return &twice{Conn: conn}, err
			},
			Blobs: client, Gate: gate, Numerics: string(kernel.F32), Log: slog.New(slog.DiscardHandler),
			Start: func(session []byte) (node.Worker, error) { return miner.New(m, key(name), session, sample(), engine) },
		})
		miners.Go(func() {
			if err := one.Run(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	if err := h.Serve(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	v := h.View()
	if !v.Finished || v.Epoch != 2 {
		t.Errorf("finished %v after %d epochs: %s", v.Finished, v.Epoch, v.Reason)
	}
	for _, st := range v.Stages {
		if st.Merged == 0 || st.Merged+st.Unmerged != st.Acknowledged {
			t.Errorf("stage %d: %d acknowledged, %d merged, %d unmerged", st.Index, st.Acknowledged, st.Merged, st.Unmerged)
		}
	}
	for _, one := range v.Miners {
		if one.State == "barred" {
			t.Errorf("miner %d was withdrawn", one.Number)
		}
	}
	if got, err := node.Verify(j); err != nil || got.Chain != h.Chain() {
		t.Errorf("the journal leads to %x, %v", got.Chain, err)
	}
}

// TestMinerGivesUpWhereItIsNotWanted: a wrong key, or a run that does not admit it, is no reason to dial for ever.
func TestMinerGivesUpWhereItIsNotWanted(t *testing.T) {
	s := open(t, func(c *ServerConfig) { c.Admit = func(ed25519.PublicKey) error { return errors.New("not you") } })
	for _, a := range []Address{s.address, {Key: public("somebody else"), Host: s.address.Host}} {
		client := dial(t, a, "miner")
		one := node.NewMiner(node.MinerConfig{
			Dial: client.Connect, Blobs: client, Gate: node.NewGate(1), Log: slog.New(slog.DiscardHandler),
			Start: func([]byte) (node.Worker, error) { return nil, nil },
		})
		if err := one.Run(t.Context()); err == nil {
			t.Error("no error")
		} else if t.Context().Err() != nil {
			t.Fatal("it dialled for ever")
		}
	}
}
