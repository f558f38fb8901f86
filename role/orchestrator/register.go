package orchestrator

import (
	"bytes"
	"slices"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// register opens or resumes a miner's session. A new process of a known key loses what the old one held: its slots are
// given to others and its unmerged gradients are counted as such.
func (o *Orchestrator) register(key []byte, r *message.Register) {
	m := o.find(key)
	if reason := o.admission(m, r); reason != "" {
		o.turnAway(key, reason)
		return
	}
	resumed := m != nil && r.GetHolding() && bytes.Equal(m.Session, r.GetSession())
	if m == nil {
		m = &miner{Number: len(o.Miners), Key: bytes.Clone(key), Stage: -1, Factor: 1}
		if s := r.GetSpeed(); s > 0 {
			m.Service = 1 / min(max(s, slowestPrior), fastestPrior)
		}
		o.Miners = append(o.Miners, m)
	}
	if !resumed {
		o.lose(m)
		o.forget(m)
		m.Session = bytes.Clone(r.GetSession())
	}
	lost := !m.Connected && m.SilentUntil == 0
	m.Connected, m.SilentUntil = true, 0
	o.send(m, &message.Order{Kind: &message.Order_Welcome{Welcome: &message.Welcome{
		Manifest: message.Encode(o.manifest), Log: m.Log,
	}}})
	if o.Finished {
		o.send(m, &message.Order{Kind: &message.Order_Finished{Finished: &message.Finished{Reason: o.Reason}}})
		return
	}
	if resumed {
		o.remind(m, r.GetAcksSeen(), lost)
	}
}

// turnAway refuses a registration.
func (o *Orchestrator) turnAway(key []byte, reason string) {
	o.out = append(o.out, &message.Outbound{To: key, Order: &message.Order{Kind: &message.Order_Refusal{
		Refusal: &message.Refusal{Reason: reason}}}})
}

// The speed that a newcomer may state, in micro-batches per second: a cap on its share of the work, and a floor under
// which the seconds per micro-batch would not be finite.
const (
	slowestPrior = 1e-6
	fastestPrior = 1000
)

func (o *Orchestrator) admission(m *miner, r *message.Register) string {
	switch {
	case r.GetNumerics() != o.manifest.GetNumerics():
		return "this run needs numerics " + o.manifest.GetNumerics() + ", yours is " + r.GetNumerics() + ": use the matching release"
	case len(r.GetSession()) != 16:
		return "a session is 16 random bytes"
	case m != nil && m.Barred != "":
		return m.Barred
	case m == nil && len(o.Miners) >= int(o.rules.GetMaxMiners()):
		return "the run is full: try again when miners have left"
	}
	return ""
}

// remind repeats to a returning miner whatever it may have missed: acks, and the orders that still stand.
// One whose work was given away while it was gone drops what it still holds.
func (o *Orchestrator) remind(m *miner, seen uint64, lost bool) {
	for i := seen; i < uint64(len(m.Acks)); i++ {
		o.sendAck(m, m.Acks[i], i+1)
	}
	if lost {
		o.dropAll(m)
	}
	if m.Order != nil {
		o.sendTask(m, o.standingTask(m))
	}
	for _, f := range o.Flights {
		if f.Lease != nil && f.Lease.Miner == m.Number {
			o.sendTask(m, o.flightTask(f))
		}
	}
	o.remindShards(m)
	o.remindStates(m)
}

func (o *Orchestrator) sendAck(m *miner, a ack, number uint64) {
	o.send(m, &message.Order{Kind: &message.Order_Ack{Ack: &message.Ack{
		Task:    &message.TaskID{Kind: a.Kind, Epoch: o.Epoch, Batch: a.Batch, Stage: uint32(m.Stage)},
		Attempt: a.Attempt, Number: number,
	}}})
}

// gone is the end of a miner's stream: its tasks go to others at once. Its session may be resumed, without its slots.
func (o *Orchestrator) gone(m *miner) {
	m.Connected = false
	o.lose(m)
}

// restarted is the first event after the orchestrator was down: nobody has a stream yet, and every deadline that ran
// while nobody could act is given anew.
func (o *Orchestrator) restarted() {
	o.Stopping = false
	if o.Finished && !o.complete() {
		o.Finished, o.Last = false, false
		o.startWaiting("waiting for the miners to come back")
	}
	for _, m := range o.Miners {
		if m.Connected {
			m.Connected, m.SilentUntil = false, o.Now+time.Duration(o.rules.GetReconnect())
		}
	}
	again := time.Duration(o.rules.GetReconnect()) + time.Duration(o.rules.GetLease())
	for _, f := range o.Flights {
		if f.Lease != nil {
			f.Lease.Until = max(f.Lease.Until, o.Now+again)
		}
	}
	o.Until = max(o.Until, o.Now+again)
	o.restartValidators(again)
}

// expireSilence gives up the miners that did not come back in time after a restart.
func (o *Orchestrator) expireSilence() {
	for _, m := range o.Miners {
		if m.SilentUntil != 0 && o.Now >= m.SilentUntil {
			m.SilentUntil = 0
			o.gone(m)
		}
	}
}

// lose takes every task and slot from a miner, and tells the merge that it is not to be waited for.
func (o *Orchestrator) lose(m *miner) {
	for _, f := range o.Flights {
		if f.Lease != nil && f.Lease.Miner == m.Number {
			f.Lease = nil
			o.Counters.Rerouted++
		}
		for s, holder := range f.Path {
			if holder == m.Number {
				f.Path[s] = -1
			}
		}
	}
	m.Held = 0
	o.dropAll(m)
	if m.Order != nil && m.Order.Kind != message.TaskKind_LOAD {
		m.Installed = m.Installed && m.Order.Kind != message.TaskKind_INSTALL
	}
	m.Order = nil
	if o.Phase == Sharing {
		if _, me := o.memberOf(m); me != nil {
			me.Gone = true
		}
	}
	o.closeShards(m)
	o.freeJudge(judge{false, m.Number})
	for _, s := range o.Stages {
		if s.Arbiter == m.Number {
			s.Arbiter = -1 // another one is asked
		}
	}
}

// dropAll tells a miner that it holds nothing any longer.
func (o *Orchestrator) dropAll(m *miner) {
	o.send(m, &message.Order{Kind: &message.Order_Cancel{Cancel: &message.Cancel{}}})
}

// forget drops what the miner's old process knew: its state and its gradients that no merge has taken in. If its share is
// part of a merge under way, that work will not be drawn any more, so it is not paid. Gradients that no merge will take in
// are not paid anyway, and what the new process does until the epoch's end can be replayed as any other's.
func (o *Orchestrator) forget(m *miner) {
	m.Uploaded, m.Faults, m.Leaving = 0, 0, false
	if _, me := o.memberOf(m); me != nil && me.merged() && len(m.Receipts) > 0 {
		o.unproven(m, o.Epoch)
	}
	m.Receipts, m.LogFull, m.LogBytes = nil, false, 0
	m.Installed, m.Log, m.Stepped, m.Acks = false, nil, 0, nil
}

// find returns the miner with the key, or nil.
func (o *Orchestrator) find(key []byte) *miner {
	i := slices.IndexFunc(o.Miners, func(m *miner) bool { return bytes.Equal(m.Key, key) })
	if i < 0 {
		return nil
	}
	return o.Miners[i]
}

// session returns the miner if the session is its current one.
func (o *Orchestrator) session(key, session []byte) *miner {
	if m := o.find(key); m != nil && bytes.Equal(m.Session, session) {
		return m
	}
	return nil
}

func (o *Orchestrator) heartbeat(m *miner, h *message.Heartbeat) {
	if h.GetUploaded() > m.Uploaded {
		m.Uploaded, m.Progress = h.GetUploaded(), o.Now
	}
	m.Leaving = m.Leaving || h.GetLeaving()
}

// bar ends a miner's part in the run.
func (o *Orchestrator) bar(m *miner, reason string) {
	reason = plain(reason)
	m.Barred = reason
	for _, other := range o.Miners { // a claim that it had a part in says nothing of the others any more
		other.Doubts = slices.DeleteFunc(other.Doubts, func(n int) bool { return n == m.Number })
	}
	o.Counters.Kicked++
	o.alert("miner %d (%s) was withdrawn: %s", m.Number+1, message.Short(m.Key), reason)
	o.send(m, &message.Order{Kind: &message.Order_Finished{Finished: &message.Finished{Reason: reason}}})
	o.gone(m)
	o.forget(m)
}
