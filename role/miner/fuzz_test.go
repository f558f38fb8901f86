package miner

import (
	"bytes"
	"testing"

	"github.com/iota-train/iota/protocol/message"
)

// FuzzState takes up strange states: what a miner saved, what another one stored for an audit, and a checkpoint. An error
// changes nothing, and what was taken up is given out again as it came.
func FuzzState(f *testing.F) {
	manifest := testManifest(f, func(m *message.Manifest) { m.Rules.CommitEvery = 1 })
	n := newNetwork(f, manifest, 1)
	n.train(n.column(0))
	n.train(n.column(0))
	m := n.miners[1][0]
	loaded := message.Task{Id: n.id(message.TaskKind_LOAD, 0, 1)}
	checkpoint, err := m.checkpoint().encode()
	if err != nil {
		f.Fatal(err)
	}
	unhashed := func(b []byte) []byte { return b[:max(0, len(b)-saveHash)] }
	f.Add(unhashed(m.Save()), m.encodeMid(), checkpoint)
	f.Add(unhashed(m.private.encode()), []byte(midMagic), []byte{})
	f.Add([]byte(saveMagic), m.encodeMid()[:100], checkpoint[:1000])
	f.Fuzz(func(t *testing.T, saved, mid, stored []byte) {
		fresh := newMiner(t, manifest, 9)
		whole := append(bytes.Clone(saved), message.HashBytes(saved)...)
		if err := fresh.Restore(whole); err == nil && !bytes.Equal(fresh.Save(), whole) && fresh.saved.t > 0 {
			t.Fatal("a restored state comes back as another")
		}
		if c, err := fresh.readCheckpoint(1, stored); err == nil {
			if _, err := c.encode(); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := fresh.Do(&loaded, nil); err != nil {
			t.Fatal(err)
		}
		_, _ = fresh.resumeMid(mid)
	})
}
