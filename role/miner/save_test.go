package miner

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/iota-train/iota/protocol/message"
)

func TestARestartedMinerGoesOnAsIfItHadNotStopped(t *testing.T) {
	manifest := testManifest(t, func(m *message.Manifest) { m.Rules.Share = "bf16" })
	n := newNetwork(t, manifest, 1)
	for range 3 {
		n.train(n.column(0))
	}
	n.merge()
	m := n.miners[1][0]
	checkpoint := n.do(m, &message.Task{Id: n.id(message.TaskKind_UPLOAD, 0, 1)}).Outputs
	n.train(n.column(0)) // work since the install is lost with the process
	fresh := newMiner(t, manifest, 50)
	if err := fresh.Restore(m.Save()); err != nil {
		t.Fatal(err)
	}
	load := func(m *Miner) *message.Receipt {
		return n.do(m, &message.Task{
			Id: n.id(message.TaskKind_LOAD, 0, 1), Inputs: checkpoint, RateBits: math.Float32bits(testRate), Attempt: 5,
		})
	}
	a, b := load(m), load(fresh)
	if string(a.State) != string(b.State) {
		t.Error("the restored state is another one")
	}
	if fresh.private.t != 3 || slices.Max(fresh.private.m) == 0 || slices.Max(fresh.private.residual) == 0 {
		t.Error("moments, residual or step count are lost")
	}
	other := newMiner(t, manifest, 51)
	if err := other.Restore(m.Save()); err != nil {
		t.Fatal(err)
	}
	n.do(other, &message.Task{Id: &message.TaskID{Kind: message.TaskKind_LOAD, Stage: 0}, RateBits: math.Float32bits(testRate)})
	if other.private.t != 0 || slices.Max(other.private.m) != 0 {
		t.Error("moments went on in another stage")
	}
}

func TestRestoreRefusesDamage(t *testing.T) {
	manifest := testManifest(t, nil)
	n := newNetwork(t, manifest, 1)
	n.train(n.column(0))
	n.merge()
	saved := n.miners[0][0].Save()
	if newMiner(t, manifest, 1).Save() != nil {
		t.Error("a miner that never held a stage has a state")
	}
	if err := n.miners[0][0].Restore(saved); err == nil {
		t.Error("a loaded miner was restored")
	}
	m := newMiner(t, manifest, 1)
	if err := m.Restore(nil); err != nil {
		t.Error(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := slices.Clone(saved)
		if rapid.Bool().Draw(t, "cut") {
			b = b[:rapid.IntRange(1, len(b)-1).Draw(t, "length")]
		} else {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		}
		if rapid.Bool().Draw(t, "sealed") && len(b) > saveHash { // a hash that fits does not make a state fit
			b = append(b[:len(b)-saveHash], message.HashBytes(b[:len(b)-saveHash])...)
			_ = m.Restore(b)
			return
		}
		if err := m.Restore(b); err == nil {
			t.Fatal("a damaged state was restored")
		}
	})
}
