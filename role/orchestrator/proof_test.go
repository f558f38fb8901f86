package orchestrator_test

import (
	"slices"
	"testing"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// without answers orders until the run is finished, but loses those that lost is true of.
func (n *net) without(lost func(to string, t *message.Task) bool) {
	n.t.Helper()
	for i := 0; i < 30_000 && !n.core.View().Finished; i++ {
		n.orders = slices.DeleteFunc(n.orders, func(o *message.Outbound) bool {
			t := o.GetOrder().GetTask()
			return t != nil && lost(string(o.GetTo()), t)
		})
		n.now += time.Millisecond
		n.one()
	}
	n.finish()
}

func replay(_ string, t *message.Task) bool { return t.GetId().GetKind() == message.TaskKind_REPLAY }

func TestNobodyIsPaidForWhatNoReplayReached(t *testing.T) {
	n := newNet(t, 4, func(r *message.Rules) { r.AuditShare, r.ChallengeWindow, r.Probation = 1, 2, 0 })
	for i := range 6 {
		n.join(i)
	}
	n.join(firstValidator) // which never answers
	n.without(replay)
	l := n.core.View().Ledger
	if l.Paid+l.Escrow > 0 || l.Burned == 0 {
		t.Errorf("%d paid, %d in escrow, %d burned", l.Paid, l.Escrow, l.Burned)
	}
}

func TestAReplayedShardIsNoProof(t *testing.T) {
	n := newNet(t, 4, func(r *message.Rules) { r.AuditShare, r.ShardShare, r.ChallengeWindow, r.Probation = 1, 1, 2, 0 })
	for i := range 6 {
		n.join(i)
	}
	n.join(firstValidator)
	n.hostile = true
	n.without(func(_ string, t *message.Task) bool { // only replays of shards are answered
		return t.GetId().GetKind() == message.TaskKind_REPLAY && t.GetLog()[0].GetTask().GetKind() != message.TaskKind_REDUCE
	})
	v := n.core.View()
	for _, m := range v.Miners {
		if m.Pay.Earned > 0 {
			t.Errorf("miner %d was paid %d micro-units", m.Number, m.Pay.Earned)
		}
	}
	if _, passed, _ := verdicts(v); passed == 0 {
		t.Error("no shard was replayed")
	}
}

func TestEveryHonestMinerIsPaidInFullHoweverFewAuditsTheDiceDraw(t *testing.T) {
	n := newNet(t, 8, func(r *message.Rules) {
		r.AuditShare, r.ChallengeWindow, r.Probation, r.ValidatorPart = 1e-9, 2, 0, 0
	})
	for i := range 6 {
		n.join(i)
	}
	n.join(firstValidator)
	v := n.finish()
	for _, m := range v.Miners {
		if m.Pay.Earned == 0 || m.Pay.Escrow+m.Pay.Unproven > 0 {
			t.Errorf("miner %d: %+v", m.Number, m.Pay)
		}
	}
	if windows := uint64(8/2) * 6; v.Audits.Segments < 2*6 || v.Audits.Segments > windows {
		t.Errorf("%d segments were drawn for certain, one per key and window are %d", v.Audits.Segments, windows)
	}
}
