package orchestrator_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

func TestReducersThatStartAnewBeforeTheDrawAreFoundAllTheSame(t *testing.T) {
	n := newNet(t, 3, func(r *message.Rules) { r.AuditShare, r.ShardShare, r.ChallengeWindow, r.Probation = 0.01, 1, 2, 0 })
	for i := range 6 { // two in each stage: they own every shard of it alone
		n.join(i)
	}
	n.join(firstValidator)
	n.hostile = true
	stage := n.core.View().Miners[0].Stage
	liars := map[string]bool{}
	for _, m := range n.core.View().Miners {
		if m.Stage == stage {
			liars[string(m.Key)] = true
		}
	}
	n.bend = func(key string, task *message.Task, r *message.Receipt) {
		if liars[key] && task.GetId().GetKind() == message.TaskKind_REDUCE {
			r.Outputs = []*message.BlobRef{message.NewBlob([]byte("agreed on" + name(&message.Receipt{Task: r.Task}))).Ref()}
		}
	}
	again := map[string]uint64{} // the epoch of the last time, from 1
	for i := 0; i < 5000 && !n.core.View().Finished; i++ {
		n.now += time.Millisecond
		n.one()
		v := n.core.View()
		for _, m := range v.Miners {
			key := string(m.Key)
			if v.Phase == "Installing" && liars[key] && again[key] <= v.Epoch {
				again[key] = v.Epoch + 1
				p := n.peers[key]
				p.session, p.log, p.pending = bytes.Repeat([]byte{100 + byte(m.Number) + 10*byte(v.Epoch)}, 16), nil, nil
				n.send(&message.Event{Miner: m.Key, Kind: &message.Event_Register{Register: &message.Register{
					Session: p.session, Numerics: "test"}}})
			}
		}
	}
	for _, m := range n.core.View().Miners {
		if guilty := liars[string(m.Key)]; guilty != (m.Failed > 0) {
			t.Errorf("miner %d has %d failed verdicts, and is guilty: %v", m.Number, m.Failed, guilty)
		}
	}
}

func TestStepsThatFailSumNothing(t *testing.T) {
	n, liar := escapee(t, 3, 0.01, nil)
	n.bend = nil
	for i := 0; i < 30_000 && !n.core.View().Finished; i++ {
		n.now += time.Millisecond
		if len(n.orders) > 0 && string(n.orders[0].GetTo()) == liar {
			if ack := n.orders[0].GetOrder().GetAck(); ack != nil {
				n.orders = n.orders[1:]
				id := ack.GetTask()
				n.also(liar, &message.Receipt{Task: &message.TaskID{Kind: message.TaskKind_STEP, Epoch: id.GetEpoch(), Stage: id.GetStage()},
					Fault: message.Fault_FAILED, Summed: []*message.Summed{{Batch: id.GetBatch(), Attempt: ack.GetAttempt()}}})
				continue
			}
		}
		n.one()
	}
	if p := n.core.View().Miners[4].Pay; p.Earned+p.Escrow > 0 {
		t.Errorf("who takes no step at all has %d micro-units", p.Earned+p.Escrow)
	}
}
