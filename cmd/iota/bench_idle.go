package main

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/remote"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/message"
)

// idle is a worker that does nothing.
type idle struct{}

func (idle) Do(*message.Task, [][]byte) (*message.Result, []message.Blob, error) {
	return nil, nil, nil
}
func (idle) Acknowledge(*message.Ack) ([]*message.Result, error) { return nil, nil }
func (idle) Drop(*message.TaskID, uint32)                        {}
func (idle) AcksSeen() uint64                                    { return 0 }
func (idle) Save() []byte                                        { return nil }

// idleShare is the share of a core that an orchestrator and its miners use while no miner has anything to do.
func (b *transportBench) idleShare(ctx context.Context) (float64, error) {
	hub, blobs, err := idleHub()
	if err != nil {
		return 0, err
	}
	server, address, err := listenFor(remote.ServerConfig{Blobs: blobs})
	if err != nil {
		return 0, err
	}
	defer server.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel(nil)
	tasks.Go(func() { cancel(hub.Serve(ctx, server)) })
	var joined atomic.Int64
	for range b.miners {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			return 0, err
		}
		client, err := remote.Dial(address, key)
		if err != nil {
			return 0, err
		}
		m := node.NewMiner(node.MinerConfig{
			Dial: client.Connect, Blobs: client, Gate: node.NewGate(1), Numerics: string(kernel.F32), Role: message.Role_VALIDATOR,
			Start: func([]byte) (node.Worker, error) { return idle{}, nil }, Joined: func() { joined.Add(1) },
			Log: slog.New(slog.DiscardHandler),
		})
		tasks.Go(func() {
			defer client.Close()
			if err := m.Run(ctx); ctx.Err() == nil {
				cancel(fmt.Errorf("an idle miner: %w", err))
			}
		})
	}
	for joined.Load() < int64(b.miners) && pause(ctx, 10*time.Millisecond) {
	}
	pause(ctx, time.Second) // what joining set off
	used, began := cpuTime(), time.Now()
	pause(ctx, b.idle)
	share := ratio((cpuTime() - used).Seconds(), time.Since(began).Seconds())
	return share, context.Cause(ctx)
}

// pause returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// idleHub is the orchestrator of a run in which nothing can happen: nobody holds a stage.
func idleHub() (*node.Hub, *store.Memory, error) {
	tokenizer, err := data.NewTokenizer(data.Bytes)
	if err != nil {
		return nil, nil, err
	}
	text, err := data.Sample(tokenizer)
	if err != nil {
		return nil, nil, err
	}
	shape, err := model.Preset("nano")
	if err != nil {
		return nil, nil, err
	}
	o := &options{preset: "nano", miners: 3, seeded: true, seed: 1, share: "f32", aggregate: "mean", precision: "f32"}
	m, secret, err := o.manifest(shape, text)
	if err != nil {
		return nil, nil, err
	}
	j, blobs := journal.NewMemory(), store.NewMemory(1<<30)
	if err := node.Begin(j, m, secret); err != nil {
		return nil, nil, err
	}
	hub, err := node.OpenHub(node.HubConfig{Journal: j, Blobs: blobs, Log: slog.New(slog.DiscardHandler)})
	return hub, blobs, err
}
