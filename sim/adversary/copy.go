package adversary

import (
	"bytes"

	"github.com/iota-train/iota/protocol/message"
)

// loot is what a copier keeps of others' shares. It can get at no share before everybody has given theirs: an order that
// names one leaves only when that time is over (sim.laws). What it reduces is therefore what it has, one epoch late.
type loot struct {
	epoch  uint64
	pieces map[uint32][]byte // of one other member, by shard
}

// rob keeps one source of each shard that the miner reduces, of the newest epoch, and not what the miner gave itself.
func (a *Adversary) rob(t *message.Task, inputs [][]byte) {
	id := t.GetId()
	if id.GetKind() != message.TaskKind_REDUCE {
		return
	}
	if a.loot.pieces == nil || a.loot.epoch != id.GetEpoch() {
		a.loot = loot{id.GetEpoch(), map[uint32][]byte{}}
	}
	own := a.last[message.TaskKind_SHARE]
	for _, b := range inputs {
		if i := int(id.GetShard()); len(b) > 0 && (i >= len(own) || !bytes.Equal(b, own[i].Bytes())) {
			a.loot.pieces[id.GetShard()] = bytes.Clone(b)
			return
		}
	}
}

// forge gives another miner's share for the miner's own: what it kept of the same shard, else of any that is as long. A
// shard for which it has nothing stays. The outputs themselves stay, too: the worker may give them again.
func (a *Adversary) forge(outputs []message.Blob) (forged []message.Blob, changed bool) {
	for i, b := range outputs {
		piece := a.loot.pieces[uint32(i)]
		for other := range uint32(len(outputs)) {
			if len(piece) == len(b.Bytes()) {
				break
			}
			piece = a.loot.pieces[other]
		}
		if len(piece) == len(b.Bytes()) && len(piece) > 0 {
			b, changed = message.NewBlob(piece), true
		}
		forged = append(forged, b)
	}
	return forged, changed
}
