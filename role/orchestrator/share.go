package orchestrator

import (
	"fmt"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// startSharing closes the epoch: the cohort uploads its pseudo-gradients, every other miner only steps what it has.
func (o *Orchestrator) startSharing() {
	o.MergeStart = o.Now
	o.freeze()
	limit := time.Duration(o.rules.GetShareDeadline())
	o.enter(Sharing, limit, "the cohort uploads its pseudo-gradients")
	for _, m := range o.Miners {
		if !m.active() {
			continue
		}
		kind := message.TaskKind_CLOSE
		if _, me := o.memberOf(m); me != nil {
			kind = message.TaskKind_SHARE
		}
		o.order(m, kind, limit+time.Duration(o.rules.GetShareGrace()))
	}
}

// leaveSharing goes on when every share is in or cannot come, or when the time is up. An upload that makes progress
// gets a bounded grace.
func (o *Orchestrator) leaveSharing() bool {
	open, moving := 0, false
	for _, s := range o.Stages {
		for _, me := range s.Cohort {
			if me.Shares == nil && !me.Gone {
				open++
				moving = moving || o.Miners[me.Miner].Progress > o.Since
			}
		}
	}
	if open > 0 {
		if o.Now < o.Until {
			return false
		}
		if moving && o.Now < o.Until+time.Duration(o.rules.GetShareGrace()) {
			o.Reason = "a share is still being uploaded"
			return false
		}
		o.alert("epoch %d: %d shares did not arrive in time; they are not merged", o.Epoch, open)
	}
	o.startReducing()
	return true
}

// orderDone takes in the answer to a miner's standing order.
func (o *Orchestrator) orderDone(m *miner, r *message.Receipt) {
	want := m.Order
	if want == nil || want.Kind != r.GetTask().GetKind() || want.Attempt != r.GetAttempt() ||
		r.GetTask().GetEpoch() != o.Epoch || int(r.GetTask().GetStage()) != m.Stage {
		if r.GetTask().GetKind() != message.TaskKind_CLOSE { // which nobody waits for
			o.Counters.RefusedLate++
		}
		o.refuse(m, r, fmt.Sprintf("%s came late: the run is in phase %s of epoch %d; the work counts as unmerged, nothing is held against you; wait for the install",
			r.GetTask().Key(), o.Phase, o.Epoch))
		return
	}
	if r.GetFault() == message.Fault_FAULT_NONE && !asOrdered(o.standingTask(m), r) {
		r.Fault, r.Note = message.Fault_FAILED, "it was not done as ordered"
	}
	m.Order = nil
	if r.GetFault() != message.Fault_FAULT_NONE {
		o.orderFault(m, r)
		return
	}
	switch want.Kind {
	case message.TaskKind_LOAD:
		o.loaded(m, r)
	case message.TaskKind_SHARE:
		o.shared(m, r)
	case message.TaskKind_CLOSE:
		m.countPartial(r)
	case message.TaskKind_INSTALL:
		o.installed(m, r)
	case message.TaskKind_UPLOAD:
		o.uploaded(m, r)
	}
}

// orderFault answers a miner that could not carry out a standing order: its share is given up, its install is done over
// from the checkpoint.
func (o *Orchestrator) orderFault(m *miner, r *message.Receipt) {
	kind := r.GetTask().GetKind()
	o.alert("miner %d could not do %s: %s %s", m.Number+1, r.GetTask().Key(), r.GetFault(), r.GetNote())
	if r.GetFault() == message.Fault_NON_FINITE_OWN {
		o.nonFinite(m)
	}
	switch kind {
	case message.TaskKind_SHARE:
		if _, me := o.memberOf(m); me != nil {
			me.Gone = true
		}
	case message.TaskKind_LOAD:
		m.demote()
		o.loadFailed(m, r)
	case message.TaskKind_INSTALL:
		m.Installed = false
	}
}

// shared keeps a complete share. What is stored now is what the reduction will use.
func (o *Orchestrator) shared(m *miner, r *message.Receipt) {
	s, me := o.memberOf(m)
	if me == nil || me.Gone || len(r.GetOutputs()) != len(s.Shards) {
		o.refuse(m, r, "this share does not fit the plan of the epoch; the work counts as unmerged")
		return
	}
	m.countPartial(r)
	m.UpdateNorm2 = finite(max(0, r.GetUpdateNorm2()))
	for _, out := range r.GetOutputs() {
		me.Shares = append(me.Shares, newRef(out))
		o.Counters.ShareBytes += out.GetSize()
		o.Counters.MergeBytes += out.GetSize()
	}
}

// countPartial counts the step over a partial sum that closed a miner's epoch.
func (m *miner) countPartial(r *message.Receipt) {
	if n := len(r.GetSummed()); n > 0 {
		m.Steps++
		m.Stepped += n
		m.GradNorm = finite(r.GetGradientNorm())
	}
}
