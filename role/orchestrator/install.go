package orchestrator

import (
	"math"
	"slices"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// startInstalling has everybody who holds the epoch's start weights take the outer step.
func (o *Orchestrator) startInstalling() {
	o.enter(Installing, time.Duration(o.rules.GetInstallDeadline()), "everyone takes the outer step")
	for _, m := range o.Miners {
		if m.active() {
			o.order(m, message.TaskKind_INSTALL, time.Duration(o.rules.GetInstallDeadline()))
		}
	}
}

// installed keeps the hash of a miner's new weights.
func (o *Orchestrator) installed(m *miner, r *message.Receipt) {
	if len(r.GetOutputs()) != 1 {
		m.Installed = false
		return
	}
	s := o.Stages[m.Stage]
	s.Installs = append(s.Installs, install{m.Number, newRef(r.GetOutputs()[0])})
	for _, sh := range s.mergedShards() {
		o.Counters.MergeBytes += sh.GetSize()
	}
}

// leaveInstalling brings every stage to one verified checkpoint, then begins the next epoch.
func (o *Orchestrator) leaveInstalling() bool {
	open := 0
	for _, s := range o.Stages {
		if !s.Settled && !o.settleInstall(s) {
			open++
		}
	}
	if open > 0 && o.Now < o.Until {
		return false
	}
	for _, s := range o.Stages {
		if !s.Settled {
			o.fallBack(s, "no checkpoint was stored in time")
		}
	}
	o.nextEpoch()
	return true
}

// settleInstall moves a stage on as far as it can: all reports in, one hash agreed on, its checkpoint stored.
func (o *Orchestrator) settleInstall(s *stage) bool {
	if s.Agreed == nil {
		if s.Arbiter >= 0 || o.awaits(s, message.TaskKind_INSTALL) {
			return false
		}
		if !o.agreeInstall(s) {
			return s.Settled
		}
	}
	if o.awaits(s, message.TaskKind_UPLOAD) {
		return false
	}
	return o.callUploader(s)
}

// awaits reports whether a miner of the stage, one expected back included, still has such an order.
func (o *Orchestrator) awaits(s *stage, kind message.TaskKind) bool {
	for _, m := range o.Miners {
		if m.Stage == s.Index && m.present() && m.Order != nil && m.Order.Kind == kind {
			return true
		}
	}
	return false
}

// agreeInstall reports whether all replicas took the same step. Two different hashes, however many hold each, go to an
// arbiter; without one the stage goes back to its checkpoint.
func (o *Orchestrator) agreeInstall(s *stage) bool {
	if len(s.Installs) == 0 {
		o.fallBack(s, "nobody is left who took the outer step")
		return false
	}
	first := s.Installs[0].Result
	if !slices.ContainsFunc(s.Installs, func(i install) bool { return !i.Result.same(first) }) {
		s.Agreed = &first
		return true
	}
	if !s.Disputed {
		s.Disputed = true
		s.Disagreements++
		o.Counters.Disagreements++
	}
	var list []*miner
	for _, m := range o.Miners {
		if m.active() && m.Stage != s.Index {
			list = append(list, m)
		}
	}
	if len(list) == 0 {
		o.fallBack(s, "its replicas differ after the outer step and nobody can arbitrate")
		return false
	}
	m := list[o.dice.IntN(len(list))]
	s.Attempts++
	s.Arbiter, s.ArbiterAt = m.Number, s.Attempts
	o.sendTask(m, o.outerTask(s))
	return false
}

// outerTask has another stage's miner recompute the outer step from the checkpoint and the merged shards.
func (o *Orchestrator) outerTask(s *stage) *message.Task {
	t := &message.Task{
		Id:      &message.TaskID{Kind: message.TaskKind_OUTER, Epoch: o.Epoch, Stage: uint32(s.Index)},
		Attempt: s.ArbiterAt, Plan: o.plan(s), RateBits: math.Float32bits(o.nextRate()),
	}
	if s.Checkpoint != nil {
		t.Inputs = append(t.Inputs, s.Checkpoint.blob())
	}
	t.Inputs = append(t.Inputs, s.mergedShards()...)
	return t
}

// arbitrated takes in the arbiter's outer step.
func (o *Orchestrator) arbitrated(m *miner, r *message.Receipt) {
	stage := int(r.GetTask().GetStage())
	if o.Phase != Installing || stage >= len(o.Stages) || o.Stages[stage].Arbiter != m.Number ||
		r.GetAttempt() != o.Stages[stage].ArbiterAt || r.GetTask().GetEpoch() != o.Epoch {
		o.Counters.RefusedLate++
		o.refuse(m, r, "this arbitration came late: nothing is held against you")
		return
	}
	s := o.Stages[stage]
	s.Arbiter = -1
	if r.GetFault() != message.Fault_FAULT_NONE || len(r.GetOutputs()) != 1 {
		o.fallBack(s, "its replicas differ after the outer step and the arbiter failed")
		return
	}
	truth := newRef(r.GetOutputs()[0])
	s.Agreed = &truth
	for _, i := range s.Installs {
		if !i.Result.same(truth) {
			o.alert("miner %d took a wrong outer step in stage %d", i.Miner+1, s.Index)
		}
	}
}

// nextEpoch closes the books of the epoch and begins the next.
func (o *Orchestrator) nextEpoch() {
	rate := o.nextRate()
	o.reportEpoch()
	o.drawAudits()
	o.Epoch++
	o.RateBits = math.Float32bits(rate)
	o.EpochStart = o.Now
	o.LossSum, o.LossCount = 0, 0
	for _, m := range o.Miners {
		m.Acks, m.Stepped, m.Spread = nil, 0, 0
		if o.Epoch%MaxFaults == 0 {
			m.Refuted = max(0, m.Refuted-1)
		}
		if m.Order != nil {
			m.Installed = m.Installed && m.Order.Kind == message.TaskKind_UPLOAD
			m.Order = nil
		}
	}
	o.emit()
	for _, s := range o.Stages {
		s.account(s.CheckpointOf == o.Epoch)
		s.Cohort, s.Shards, s.Installs, s.Agreed, s.Arbiter = nil, nil, nil, nil, -1
	}
	o.releaseBlobs()
	o.startEvaluation()
	if o.emptyStage() >= 0 {
		o.startWaiting("waiting for the miners to load the new checkpoint")
		return
	}
	o.train(time.Duration(o.rules.GetEpochDeadline()))
}

// merged reports whether the member's share is part of what its stage merged.
func (me *member) merged() bool { return me.Shares != nil && !me.Unfit }

// account books the epoch's acknowledged micro-batches: as merged if their miner's share is part of what was installed,
// else as unmerged.
func (s *stage) account(installed bool) {
	var merged uint64
	for _, me := range s.Cohort {
		if installed && me.merged() {
			merged += me.B
		}
	}
	s.Merged += merged
	s.Unmerged += s.EpochAcked - merged
	s.EpochAcked = 0
}
