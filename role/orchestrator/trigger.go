package orchestrator

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/iota-train/iota/protocol/butterfly"
	"github.com/iota-train/iota/protocol/message"
)

// threshold is B_min = H K: the acknowledged backwards from which on a miner's work of an epoch is merged.
func (o *Orchestrator) threshold() uint64 {
	return uint64(o.rules.GetInnerSteps()) * uint64(o.rules.GetMicroBatchesPerStep())
}

// startWaiting stops the epoch's clock until every stage has a miner.
func (o *Orchestrator) startWaiting(reason string) {
	o.enter(Waiting, time.Duration(o.rules.GetPatience()), reason)
}

// leaveWaiting goes on training once every stage has a miner. The epoch's clock goes on with the time it had left.
func (o *Orchestrator) leaveWaiting() bool {
	if o.emptyStage() >= 0 {
		return false
	}
	left := o.TrainingLeft
	if left <= 0 {
		left = time.Duration(o.rules.GetEpochDeadline())
	}
	o.train(left)
	return true
}

func (o *Orchestrator) train(left time.Duration) {
	o.TrainingLeft = 0
	o.enter(Training, left, fmt.Sprintf("until a share of %v of every stage's miners has %d backwards", o.rules.GetQuorum(), o.threshold()))
}

// emptyStage returns a stage without an active miner, or -1.
func (o *Orchestrator) emptyStage() int {
	for _, s := range o.Stages {
		if len(o.active(s.Index)) == 0 {
			return s.Index
		}
	}
	return -1
}

// leaveTraining decides, in this order: a stage without miners stops the clock; the last held-out result ends the run;
// the trigger or the deadline starts the drain; the end of the drain starts the merge.
func (o *Orchestrator) leaveTraining() bool {
	if o.Last {
		return o.leaveLast()
	}
	if s := o.emptyStage(); s >= 0 && !o.Draining {
		o.TrainingLeft = max(time.Second, o.Until-o.Now)
		o.startWaiting(fmt.Sprintf("stage %d has no miner", s))
		return true
	}
	if !o.Draining {
		if o.Now < o.Until && !o.triggered() {
			return false
		}
		reason := "every stage's quorum is reached"
		if o.Now >= o.Until {
			reason = "the epoch's deadline passed"
		}
		o.Draining, o.Since, o.Until = true, o.Now, o.Now+time.Duration(o.rules.GetDrainDeadline())
		o.Reason = reason + ": micro-batches on their way go on, none enters"
	}
	if len(o.Flights) > 0 && o.Now < o.Until && o.emptyStage() < 0 {
		return false
	}
	o.cancelFlights()
	o.attribute()
	o.startSharing()
	return true
}

// leaveLast ends the run when the held-out micro-batches are through, or can get through no more, and open audits have
// ended or had their time.
func (o *Orchestrator) leaveLast() bool {
	if o.EvaluatedDone < o.EvaluateCount && o.Now < o.Until && o.emptyStage() < 0 {
		return false
	}
	if o.Now < o.auditsUntil() {
		o.Reason = "the last audits are answered"
		return false
	}
	o.cancelFlights()
	o.finish(fmt.Sprintf("%d epochs", o.Epoch))
	return true
}

// complete reports whether the run has its full length.
func (o *Orchestrator) complete() bool { return o.completeAfter(o.Epoch) }

// completeAfter reports whether it has now, or will have, its full length after so many epochs.
func (o *Orchestrator) completeAfter(epochs uint64) bool {
	if n := o.rules.GetEpochs(); n > 0 && epochs >= uint64(n) {
		return true
	}
	t := time.Duration(o.rules.GetRunTime())
	return t > 0 && o.Now >= t
}

// triggered reports whether the quorum of every stage's active miners qualifies. Held-out micro-batches that have not
// entered yet do so first: they need the weights of this epoch's start. After a restart it waits until every miner is back
// or given up: one that comes back as a new process no longer has the gradients that were acknowledged to the old one.
func (o *Orchestrator) triggered() bool {
	if o.EvaluateNext < o.EvaluateCount {
		return false
	}
	if slices.ContainsFunc(o.Miners, func(m *miner) bool { return m.SilentUntil != 0 }) {
		return false
	}
	for _, s := range o.Stages {
		active, qualified := awake(o.active(s.Index)), 0
		for _, m := range active {
			if uint64(len(m.Acks)) >= o.threshold() {
				qualified++
			}
		}
		if qualified < o.quorumOf(len(active)) {
			return false
		}
	}
	return true
}

// quorumOf is how many of n miners make the quorum: at least one.
func (o *Orchestrator) quorumOf(n int) int {
	return max(1, int(math.Ceil(float64(o.rules.GetQuorum()*float64(n))-1e-9)))
}

// freeze fixes every stage's cohort and shard map. Nothing that happens later changes them until the install.
func (o *Orchestrator) freeze() {
	for _, s := range o.Stages {
		s.Cohort, s.Shards, s.Installs, s.Agreed, s.ResultNorm2 = nil, nil, nil, nil, 0
		s.Settled, s.UploadTried, s.Disputed, s.Arbiter = false, nil, false, -1
		for _, m := range o.active(s.Index) {
			if uint64(len(m.Acks)) >= o.threshold() {
				s.Cohort = append(s.Cohort, &member{Miner: m.Number, B: uint64(len(m.Acks))})
			}
		}
		n := len(s.Cohort)
		if n == 0 {
			s.Shards = []*shard{{From: 0, To: s.Weights, Lost: true, Done: true, Arbiter: -1}}
			continue
		}
		plan := butterfly.NewPlan(n, int(s.Weights), o.dice)
		for i := range plan.Len() {
			sh := plan.Shard(i)
			s.Shards = append(s.Shards, &shard{
				From: uint64(sh.From), To: uint64(sh.To), Owners: [2]int{sh.Owners.First, sh.Owners.Second}, Arbiter: -1,
			})
		}
	}
}

// plan is the message form of a stage's shard map.
func (o *Orchestrator) plan(s *stage) *message.Plan {
	p := &message.Plan{Epoch: o.Epoch, Stage: uint32(s.Index), Bounds: []uint64{0}}
	for _, me := range s.Cohort {
		p.Members = append(p.Members, slices.Clone(o.Miners[me.Miner].Key))
	}
	for _, sh := range s.Shards {
		p.Bounds = append(p.Bounds, sh.To)
		p.First = append(p.First, uint32(sh.Owners[0]))
		p.Second = append(p.Second, uint32(sh.Owners[1]))
	}
	return p
}

// memberOf returns the miner's stage and its place in the cohort, or nil.
func (o *Orchestrator) memberOf(m *miner) (*stage, *member) {
	if m.Stage < 0 {
		return nil, nil
	}
	s := o.Stages[m.Stage]
	for _, me := range s.Cohort {
		if me.Miner == m.Number {
			return s, me
		}
	}
	return s, nil
}
