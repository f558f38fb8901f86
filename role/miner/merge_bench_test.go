package miner

import (
	"testing"

	"github.com/iota-train/iota/protocol/message"
)

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
	id := &message.TaskID{Kind: message.TaskKind_UPLOAD, Epoch: 0, Stage: 1}
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
