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
