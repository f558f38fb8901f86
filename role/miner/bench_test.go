package miner

import (
	"testing"

	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// BenchmarkMicroBatch is one micro-batch through three miners, with an inner step in each; BenchmarkUnsplit is the same
// training in one stage without any of the protocol.
func BenchmarkMicroBatch(b *testing.B) {
	n := newNetwork(b, tiny(b), 1)
	n.train(n.column(0))
	b.ReportAllocs()
	for b.Loop() {
		n.train(n.column(0))
	}
}

func BenchmarkUnsplit(b *testing.B) {
	u := newUnsplit(b, newNetwork(b, tiny(b), 1))
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		u.train(i)
		i++
	}
}

// BenchmarkCommit hashes the state of a stage of the tiny model.
func BenchmarkCommit(b *testing.B) {
	m := newNetwork(b, tiny(b), 1).miners[1][0]
	b.SetBytes(int64(3 * 4 * m.size))
	b.ReportAllocs()
	for b.Loop() {
		m.commit(&message.Receipt{})
	}
}

// BenchmarkCheckpoint names a stage's checkpoint, as every install does, and gives its bytes, as an upload does.
func BenchmarkCheckpoint(b *testing.B) {
	m := newNetwork(b, tiny(b), 1).miners[1][0]
	id := &message.TaskID{Kind: message.TaskKind_UPLOAD, Stage: 1}
	for name, fn := range map[string]func(){
		"name":   func() { m.checkpoint().ref() },
		"upload": func() { _ = m.upload(&work{id: id, receipt: &message.Receipt{}}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(2 * 4 * m.size))
			b.ReportAllocs()
			for b.Loop() {
				fn()
			}
		})
	}
}

// BenchmarkMerge is the end of an epoch of six miners in three stages: share, reduce and install.
func BenchmarkMerge(b *testing.B) {
	n := newNetwork(b, tiny(b), 2)
	n.train(n.column(0))
	n.train(n.column(1))
	b.ReportAllocs()
	for b.Loop() {
		n.merge()
		clear(n.blobs)
	}
}

// BenchmarkMergeTask is each task of a merge as one of two miners of a stage does it, with its hashes and commitment and
// without the driver's work.
func BenchmarkMergeTask(b *testing.B) {
	for _, share := range []string{"f32", "bf16"} {
		manifest := tiny(b)
		manifest.Rules.Share = share
		n := newNetwork(b, manifest, 2)
		n.train(n.column(0))
		n.train(n.column(1))
		n.mergeTasks(share)
	}
}

// mergeTasks measures one miner's share, reduce and install.
func (n *network) mergeTasks(share string) {
	b, plan := n.t.(*testing.B), n.plan(1)
	var sources [][]byte
	for _, m := range n.miners[1] {
		_, outputs, err := n.try(m, &message.Task{Id: n.id(message.TaskKind_SHARE, 0, 1), Plan: plan})
		if err != nil {
			b.Fatal(err)
		}
		sources = append(sources, outputs[0].Bytes())
	}
	m := n.miners[1][0]
	for _, c := range []struct {
		name string
		do   func(*work) error
		work work
	}{
		{"share", m.share, work{}},
		{"reduce", m.reduce, work{inputs: sources, weights: []uint64{3, 4}, elements: -1}},
		{"install", m.install, work{inputs: sources[:1]}},
	} {
		b.Run(c.name+"/"+share, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := c.work
				w.receipt, w.plan = &message.Receipt{}, plan
				w.id = &message.TaskID{Epoch: m.epoch, Stage: 1}
				plan.Epoch = m.epoch
				if err := c.do(&w); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// tiny is the manifest of the tiny model, boundary none and f32.
func tiny(b *testing.B) *message.Manifest {
	return testManifest(b, func(m *message.Manifest) {
		c, err := model.Preset("tiny")
		if err != nil {
			b.Fatal(err)
		}
		c.Boundary, c.Wire = model.None, "f32"
		m.Model = manifest.Model(c)
	})
}
