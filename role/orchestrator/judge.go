package orchestrator

import (
	"encoding/hex"
	"math"
	"slices"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// findJudge gives an audit to somebody who can do it now, and reports whether it did. It waits for a validator that is
// busy; only where no other validator is left, and only for a second opinion, an uninvolved miner is asked.
func (o *Orchestrator) findJudge(a *audit, busy map[judge]bool) bool {
	var idle []judge
	wait := false
	for _, v := range o.Validators {
		if v.Connected && v.Barred == "" && !a.knows(v.judge()) {
			wait = true
			if !busy[v.judge()] {
				idle = append(idle, v.judge())
			}
		}
	}
	if !wait && (len(a.Answers) > 0 || a.Planted && len(a.Leases) > 0) || len(a.Answers) >= maxAnswers {
		if miners := o.uninvolved(a, busy); len(miners) > 0 { // they are waited for
			idle = slices.DeleteFunc(miners, func(j judge) bool { return !o.spare(o.Miners[j.Number]) })
		}
	}
	if len(idle) == 0 {
		return false
	}
	j := idle[o.dice.IntN(len(idle))]
	busy[j] = true
	for _, b := range o.Audits {
		if b.Twin == a.Number || a.Twin == b.Number {
			b.Elsewhere = append(b.Elsewhere, j)
		}
	}
	a.Attempts++
	a.Leases = append(a.Leases, replayLease{j, a.Attempts, o.Now + time.Duration(o.rules.GetEpochDeadline())})
	o.orderJudge(j, &message.Order{Kind: &message.Order_Task{Task: o.replayTask(a, a.Attempts)}})
	return true
}

// spare reports whether a miner has nothing due that a second opinion could delay: one that computes a task at a time
// would share, reduce or install only after it.
func (o *Orchestrator) spare(m *miner) bool {
	return m.Order == nil && (o.Phase == Training && !o.Draining || o.Phase == Waiting)
}

// quick reports whether a miner, by its speed, replays an audit in half the time that a share may take: so even one that
// begins at the end of an epoch's training does not cost it its share.
func (o *Orchestrator) quick(m *miner, a *audit) bool {
	total := 0.0
	for _, s := range o.Stages {
		total += s.Cost
	}
	own := o.Stages[m.Stage].Cost * float64(len(o.Stages)) / total // of a micro-batch, in units of work
	return float64(a.Units*m.Service) <= float64(own*(time.Duration(o.rules.GetShareDeadline())/2).Seconds())
}

// uninvolved are the miners at work who could give a second opinion: no party, none that was asked before, and none that is
// too slow for it.
func (o *Orchestrator) uninvolved(a *audit, busy map[judge]bool) []judge {
	var list []judge
	for _, m := range o.Miners {
		j := judge{false, m.Number}
		party := m.Number == a.Miner || slices.ContainsFunc(a.Parties, func(p party) bool { return p.Miner == m.Number })
		if m.active() && m.Connected && !m.Leaving && !m.hung() && o.quick(m, a) && !party && !a.knows(j) && !busy[j] {
			list = append(list, j)
		}
	}
	return list
}

// knows reports whether a judge has a part in an audit already, or had, or in the one that it is an altered copy of.
func (a *audit) knows(j judge) bool {
	return slices.Contains(a.Declined, j) || slices.Contains(a.Elsewhere, j) || slices.ContainsFunc(a.Answers, func(x answer) bool { return x.Judge == j }) ||
		slices.ContainsFunc(a.Leases, func(l replayLease) bool { return l.Judge == j })
}

// busyJudges are those who replay something now.
func (o *Orchestrator) busyJudges() map[judge]bool {
	busy := map[judge]bool{}
	for _, a := range o.Audits {
		for _, l := range a.Leases {
			busy[l.Judge] = true
		}
	}
	return busy
}

// freeValidator reports whether a validator has nothing to replay.
func (o *Orchestrator) freeValidator(busy map[judge]bool) bool {
	return slices.ContainsFunc(o.Validators, func(v *validator) bool { return v.Connected && v.Barred == "" && !busy[v.judge()] })
}

// freeJudge takes from a judge what it replays: others do it.
func (o *Orchestrator) freeJudge(j judge) {
	for _, a := range o.Audits {
		a.Leases = slices.DeleteFunc(a.Leases, func(l replayLease) bool { return l.Judge == j })
	}
}

// remindJudge repeats to a judge what it has to replay.
func (o *Orchestrator) remindJudge(j judge) {
	for _, a := range o.Audits {
		for _, l := range a.Leases {
			if l.Judge == j {
				o.orderJudge(j, &message.Order{Kind: &message.Order_Task{Task: o.replayTask(a, l.Attempt)}})
			}
		}
	}
}

// orderJudge sends an order to a judge.
func (o *Orchestrator) orderJudge(j judge, order *message.Order) {
	if j.Validator {
		o.tell(o.validatorOf(j), order)
		return
	}
	o.send(o.Miners[j.Number], order)
}

// replayTask is what a judge gets: orders and inputs, nothing that came of them.
func (o *Orchestrator) replayTask(a *audit, attempt uint32) *message.Task {
	t := &message.Task{Attempt: attempt, Inputs: []*message.BlobRef{{}, {}, {}}, Id: &message.TaskID{
		Kind: message.TaskKind_REPLAY, Epoch: a.Epoch, Stage: uint32(a.Stage), Batch: a.Number, Shard: uint32(max(0, a.Shard))}}
	for i, r := range []*ref{a.Private, a.Checkpoint, a.State} {
		if r != nil {
			t.Inputs[i] = r.blob()
		}
	}
	for _, b := range a.Blobs {
		t.Inputs = append(t.Inputs, b.blob())
	}
	for _, raw := range a.Order {
		t.Log = append(t.Log, opened(raw))
	}
	return t
}

// reads are all blobs that the judges of an audit need.
func (a *audit) reads() []ref {
	list := slices.Clone(a.Blobs)
	for _, r := range []*ref{a.Private, a.Checkpoint, a.State} {
		if r != nil {
			list = append(list, *r)
		}
	}
	return list
}

// keepForever keeps the blobs of an audit that found a miner wrong: with the journal they prove it to anybody.
func (o *Orchestrator) keepForever(a *audit) {
	for _, r := range a.reads() {
		o.Blobs[hex.EncodeToString(r.Hash)] = blob{r.Size, math.MaxUint32}
	}
}

// canEnd reports whether somebody connected can still end an audit.
func (o *Orchestrator) canEnd(a *audit) bool {
	if !slices.ContainsFunc(o.Validators, func(v *validator) bool { return v.Connected && v.Barred == "" }) {
		return false
	}
	if a.awaits() {
		return o.Miners[a.Miner].Connected
	}
	return !o.stuck(a)
}

// stuck reports whether an audit waits for a judge and nobody is there who could be one.
func (o *Orchestrator) stuck(a *audit) bool {
	if len(a.Leases) > 0 {
		return false
	}
	for _, v := range o.Validators {
		if v.Connected && v.Barred == "" && !a.knows(v.judge()) {
			return false
		}
	}
	return len(a.Answers) == 0 || len(o.uninvolved(a, nil)) == 0
}
