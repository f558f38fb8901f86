package orchestrator_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// escapee is a network with a validator in which miner 5 makes everything up and does something so as not to be found.
func escapee(t *testing.T, epochs uint32, share float64, trick func(n *net, key string, task *message.Task)) (n *net, liar string) {
	t.Helper()
	n = newNet(t, epochs, func(r *message.Rules) { r.AuditShare, r.ChallengeWindow, r.Probation = share, 2, 0 })
	for i := range 9 {
		n.join(i)
	}
	n.join(firstValidator)
	n.hostile = true
	liar = string(n.core.View().Miners[4].Key)
	n.bend = func(key string, task *message.Task, r *message.Receipt) {
		if key != liar {
			return
		}
		if k := task.GetId().GetKind(); (k == message.TaskKind_LOSS || k == message.TaskKind_FORWARD) && len(r.GetOutputs()) > 0 {
			r.Outputs = []*message.BlobRef{message.NewBlob([]byte("noise" + name(r))).Ref()}
		}
		if trick != nil {
			trick(n, key, task)
		}
	}
	return n, liar
}

// also has a peer send a receipt that nobody asked for.
func (n *net) also(key string, r *message.Receipt) { n.result(n.peers[key], []byte(key), r) }

func wantUnpaid(t *testing.T, v orchestrator.View) {
	t.Helper()
	if p := v.Miners[4].Pay; p.Earned+p.Escrow > 0 {
		t.Errorf("the liar has %d micro-units and %d failed verdicts", p.Earned+p.Escrow, v.Miners[4].Failed)
	}
	for i, m := range v.Miners {
		if i != 4 && (m.Failed > 0 || m.Pay.Earned == 0 || m.Pay.Unproven > 0) {
			t.Errorf("miner %d has %d failed verdicts, %d micro-units, %d unproven", i+1, m.Failed, m.Pay.Earned, m.Pay.Unproven)
		}
	}
}

func TestALoadThatNobodyOrderedDoesNotWipeOutALog(t *testing.T) {
	n, _ := escapee(t, 3, 1, func(n *net, key string, task *message.Task) {
		if id := task.GetId(); id.GetKind() == message.TaskKind_INSTALL {
			load := &message.TaskID{Kind: message.TaskKind_LOAD, Epoch: id.GetEpoch(), Stage: id.GetStage()}
			n.also(key, &message.Receipt{Task: load, Attempt: 77, Outputs: []*message.BlobRef{message.NewBlob([]byte("x")).Ref()}})
		}
	})
	v := n.finish()
	wantUnpaid(t, v)
	if v.Miners[4].Failed == 0 {
		t.Error("the liar was not found")
	}
}

func TestALogFilledWithOtherThingsIsNotPaid(t *testing.T) {
	n, _ := escapee(t, 3, 0.01, func(n *net, key string, task *message.Task) {
		if task.GetId().GetKind() == message.TaskKind_SHARE {
			for range 3 {
				n.also(key, &message.Receipt{Task: &message.TaskID{Kind: message.TaskKind_CLOSE}, Note: strings.Repeat("x", 3<<20)})
			}
		}
	})
	wantUnpaid(t, n.finish())
}

func TestACommitmentToASlotThatCannotBeIsNotPaid(t *testing.T) {
	n, _ := escapee(t, 3, 0.01, func(n *net, key string, task *message.Task) {
		if id := task.GetId(); id.GetKind() == message.TaskKind_SHARE {
			n.also(key, &message.Receipt{Task: &message.TaskID{Kind: message.TaskKind_STEP, Epoch: id.GetEpoch() + 9, Batch: 1},
				State: make([]byte, 32), Slots: []*message.Summed{{Batch: 1 << 40}}})
		}
	})
	wantUnpaid(t, n.finish())
}

func TestWhoKeepsItsStateBackUntilTheWindowClosesIsNotPaid(t *testing.T) {
	for _, epochs := range []uint32{2, 6} { // also at the end of a run
		n, liar := escapee(t, epochs, 1, nil)
		kept := map[uint64]bool{}
		for i := 0; i < 30_000 && !n.core.View().Finished; i++ {
			n.orders = slices.DeleteFunc(n.orders, func(o *message.Outbound) bool {
				id := o.GetOrder().GetTask().GetId()
				back := string(o.GetTo()) == liar && id.GetKind() == message.TaskKind_STATE
				kept[id.GetEpoch()] = kept[id.GetEpoch()] || back
				return back
			})
			n.now += time.Millisecond
			n.one()
		}
		n.finish()
		for line := range bytes.Lines(slices.Concat(n.pages...)) {
			var e ledger.Entry
			if json.Unmarshal(line, &e) == nil && e.Kind == ledger.Release && string(e.Key) == liar && kept[e.Of] {
				t.Errorf("%d epochs: the liar was paid %d micro-units of epoch %d", epochs, e.Amount, e.Of)
			}
		}
		if len(kept) < 2 {
			t.Errorf("%d epochs: nothing was kept back", epochs)
		}
	}
}

func TestAFewValidatorsThatDeclineEverythingEndNoAudit(t *testing.T) {
	n, _ := escapee(t, 3, 1, nil)
	for i := range 6 {
		n.join(firstValidator + 1 + i)
	}
	bend := n.bend
	n.bend = func(key string, task *message.Task, r *message.Receipt) {
		bend(key, task, r)
		if task.GetId().GetKind() == message.TaskKind_REPLAY && n.peers[key].session[0] > firstValidator {
			r.Fault, r.Replayed = message.Fault_FAILED, nil
		}
	}
	v := n.finish()
	wantUnpaid(t, v)
	if v.Miners[4].Failed == 0 {
		t.Error("the liar was not found")
	}
}

func TestAMinerThatStartsAnewWithinAnEpochIsPaidForWhatItDidAfterwards(t *testing.T) {
	n := newNet(t, 3, func(r *message.Rules) { r.AuditShare, r.ChallengeWindow, r.Probation = 1, 2, 0 })
	for i := range 6 {
		n.join(i)
	}
	n.join(firstValidator)
	n.hostile = true
	for n.core.View().Miners[0].Backwards < 1 {
		n.now += time.Millisecond
		n.one()
	}
	for key, p := range n.peers {
		if p.session[0] != 0 {
			continue
		}
		p.session, p.log, p.pending = bytes.Repeat([]byte{99}, 16), nil, nil
		n.orders = slices.DeleteFunc(n.orders, func(o *message.Outbound) bool { return string(o.GetTo()) == key })
		n.send(&message.Event{Miner: ed25519.PublicKey(key), Kind: &message.Event_Register{Register: &message.Register{
			Session: p.session, Numerics: "test"}}})
	}
	m := n.finish().Miners[0]
	if m.Failed > 0 || m.Pay.Unproven > 0 || m.Pay.Earned == 0 {
		t.Errorf("%d failed verdicts, %d micro-units paid, %d unproven", m.Failed, m.Pay.Earned, m.Pay.Unproven)
	}
}
