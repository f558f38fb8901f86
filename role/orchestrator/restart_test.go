package orchestrator_test

import (
	"bytes"
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// The orchestrator and all miners end when all but one have trained enough, and come back as new processes one by one: the
// one that is first must not make the quorum of those that have yet to come back and lost what they had.
func TestARestartOfEverybodyLosesNoEpoch(t *testing.T) {
	n := newNet(t, 2, nil)
	for i := range 6 {
		n.join(i)
	}
	n.hostile = true
	last := n.waitForAllButOne()
	n.orders = nil
	n.send(&message.Event{Kind: &message.Event_Restarted{Restarted: &message.Restarted{}}})
	again := func(key string) {
		p := n.peers[key]
		p.session, p.log, p.pending, p.step = bytes.Repeat([]byte{100 + p.session[0]}, 16), nil, nil, 0
		n.send(&message.Event{Miner: ed25519.PublicKey(key), Kind: &message.Event_Register{Register: &message.Register{
			Session: p.session, Numerics: "test"}}})
		for range 3 {
			n.now += time.Millisecond
			n.one()
		}
	}
	again(last)
	for _, m := range n.core.View().Miners {
		if key := string(m.Key); key != last {
			again(key)
		}
	}
	n.run(20_000)
	for _, e := range n.core.View().Epochs {
		if e.Cohort != 6 || e.ShardsLost > 0 {
			t.Errorf("epoch %d: %d miners merged, %d shards lost", e.Epoch, e.Cohort, e.ShardsLost)
		}
	}
}

// waitForAllButOne lets the first epoch go on until one miner alone has not trained enough, and returns its key.
func (n *net) waitForAllButOne() string {
	n.t.Helper()
	for range 5000 {
		n.now += time.Millisecond
		n.one()
		var short []string
		for _, m := range n.core.View().Miners {
			if m.B < uint64(n.m.Rules.InnerSteps) {
				short = append(short, string(m.Key))
			}
		}
		if len(short) == 1 {
			return short[0]
		}
	}
	n.t.Fatal("no epoch came close to its end")
	return ""
}
