package orchestrator

import (
	"testing"

	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

func TestGivingSomeOfTheStatesAskedForDoesNotEndARowOfKeepingOthersBack(t *testing.T) {
	for _, c := range []struct {
		claim       string
		first, last bool // whether a state is given before the other one is kept back, and after
		fails       bool
	}{
		{"all are kept back", false, false, true},
		{"one is given before", true, false, true},
		{"one is given after", false, true, true},
	} {
		shape, err := model.Preset("nano")
		if err != nil {
			t.Fatal(err)
		}
		o, err := New(&message.Manifest{Run: "test", Model: manifest.Model(shape), Data: &message.Data{Seed: 1},
			Rules: manifest.DefaultRules(), Numerics: "test", Preset: "nano"}, [32]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		m := &miner{Key: []byte("key"), Connected: true}
		o.Miners = append(o.Miners, m)
		for epoch := range uint64(maxWithheld) {
			kept := &audit{Number: 1, Epoch: epoch, Shard: -1, Segment: message.Segment{Step: 4}, Private: &ref{}}
			given := &audit{Number: 2, Epoch: epoch, Shard: -1}
			o.Audits, o.Epoch = []*audit{kept, given}, epoch+1
			give := func() {
				o.stateGiven(m, &message.Receipt{Task: &message.TaskID{Epoch: epoch}, Outputs: []*message.BlobRef{message.NewBlob(nil).Ref()}})
			}
			if c.first {
				give()
			}
			o.withheld(m, kept)
			if c.last {
				give()
			}
		}
		if failed := m.Failed > 0; failed != c.fails {
			t.Errorf("%s: failed is %v", c.claim, failed)
		}
	}
}

func TestTheLargestAuditGivesWayWhereOpenOnesHaveTooManyBytes(t *testing.T) {
	o := &Orchestrator{}
	small, large := make([]byte, maxBytes/8), make([]byte, maxBytes/2)
	for i, b := range [][]byte{small, large, small, large, small} {
		a := &audit{Number: uint64(i), Order: [][]byte{b}}
		o.Audits = append(o.Audits, a)
		o.boundAudits(a)
	}
	if len(o.Audits) != 4 || o.AuditTotals.Unverified != 1 {
		t.Errorf("%d audits are open, %d gave way", len(o.Audits), o.AuditTotals.Unverified)
	}
}
