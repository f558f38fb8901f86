package miner

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/protocol/message"
)

// TestNoLogAndNoStateCrashesWhoReplaysIt damages the log, the states and the order of an honest miner in many ways: a
// judge gets them from a miner that may be its enemy.
func TestNoLogAndNoStateCrashesWhoReplaysIt(t *testing.T) {
	n := newNetwork(t, testManifest(t, func(m *message.Manifest) {
		m.Rules.CommitEvery, m.Rules.ChallengeWindow, m.Rules.AuditShare = 1, 1, 1
	}), 2)
	n.train(n.column(0))
	n.overlap()
	n.merge()
	m := n.miners[0][0]
	whole := n.logs[m]
	private := m.starts[0].private
	segments := message.Segments(whole, 100)
	if len(segments) < 3 {
		t.Fatalf("%d segments", len(segments))
	}
	dice := rand.New(rand.NewPCG(1, 2))
	engine := kernel.New(1)
	broken := 0
	for i := range 3000 {
		s := segments[i%len(segments)]
		l := Log{Private: private.encode(), Blobs: n.blob}
		if s.Resume > 0 {
			at := slices.IndexFunc(m.mids, func(x mid) bool { return x.step == s.Step })
			l.Resume = slices.Clone(m.mids[at].blob)
		}
		for _, at := range s.Receipts {
			l.Receipts = append(l.Receipts, whole[at].Ordered())
		}
		damage(dice, &l)
		if got, err := l.Again(n.manifest, sampleText(), engine); err != nil || got.Problem != "" {
			broken++
		}
	}
	if broken < 1000 {
		t.Errorf("only %d of 3000 damaged logs were noticed to be none", broken)
	}
}

// damage changes a few things.
func damage(d *rand.Rand, l *Log) {
	flip := func(b []byte) {
		if len(b) > 0 {
			b[d.IntN(min(len(b), 1+d.IntN(len(b))))] ^= 1 << d.IntN(8)
		}
	}
	for range 1 + d.IntN(3) {
		i := d.IntN(len(l.Receipts))
		r := l.Receipts[i]
		switch d.IntN(9) {
		case 0:
			flip(l.Private)
		case 1:
			flip(l.Resume)
		case 2:
			l.Resume = l.Resume[:d.IntN(len(l.Resume)+1)]
		case 3, 4:
			b := message.Encode(r)
			flip(b)
			var changed message.Receipt
			if message.Decode(b, &changed) == nil {
				l.Receipts[i] = &changed
			}
		case 5:
			l.Receipts = slices.Delete(l.Receipts, i, i+1)
			if len(l.Receipts) == 0 {
				return
			}
		case 6:
			j := d.IntN(len(l.Receipts))
			l.Receipts[i], l.Receipts[j] = l.Receipts[j], l.Receipts[i]
		case 7:
			r.Task = &message.TaskID{Kind: message.TaskKind(d.IntN(16)), Epoch: r.GetTask().GetEpoch(), Batch: d.Uint64N(20), Stage: uint32(d.IntN(4))}
		case 8:
			r.Inputs, r.Plan = r.GetInputs()[:d.IntN(len(r.GetInputs())+1)], nil
		}
	}
}
