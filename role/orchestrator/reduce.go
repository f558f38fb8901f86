package orchestrator

import (
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// startReducing names the sources of every shard, which are the shares that were stored in time, and has both owners
// of each shard reduce them.
func (o *Orchestrator) startReducing() {
	limit := time.Duration(o.rules.GetReduceDeadline())
	o.enter(Reducing, limit, "both owners of each shard merge it")
	for _, m := range o.Miners {
		if m.Order != nil && m.Order.Kind != message.TaskKind_LOAD {
			m.Order = nil
		}
	}
	for _, s := range o.Stages {
		for _, sh := range s.Shards {
			if sh.Done {
				continue
			}
			if s.sources() == 0 {
				sh.Lost, sh.Done = true, true
				continue
			}
			for side := range sh.Owners {
				if side == 1 && sh.Owners[0] == sh.Owners[1] {
					sh.Closed[1] = true
					continue
				}
				o.orderReduce(s, sh, side)
			}
		}
	}
}

// sources counts the shares that a stage merges.
func (s *stage) sources() int {
	n := 0
	for _, me := range s.Cohort {
		if me.Shares != nil {
			n++
		}
	}
	return n
}

// orderReduce asks an owner for its reduction, or gives up on it if the owner is away.
func (o *Orchestrator) orderReduce(s *stage, sh *shard, side int) {
	m := o.Miners[s.Cohort[sh.Owners[side]].Miner]
	if !m.active() {
		sh.Closed[side] = true
		return
	}
	s.Attempts++
	sh.Attempt[side] = s.Attempts
	o.sendTask(m, o.reduceTask(s, sh, sh.Attempt[side]))
}

// reduceTask is the same for both owners and for an arbiter: a pure function of blobs.
func (o *Orchestrator) reduceTask(s *stage, sh *shard, attempt uint32) *message.Task {
	index := s.indexOf(sh)
	t := &message.Task{
		Id:      &message.TaskID{Kind: message.TaskKind_REDUCE, Epoch: o.Epoch, Stage: uint32(s.Index), Shard: uint32(index)},
		Attempt: attempt, Plan: o.plan(s),
	}
	for _, me := range s.Cohort {
		if me.Shares != nil {
			t.Inputs = append(t.Inputs, me.Shares[index].blob())
			t.Weights = append(t.Weights, me.B)
		}
	}
	return t
}

func (s *stage) indexOf(sh *shard) int {
	for i, other := range s.Shards {
		if other == sh {
			return i
		}
	}
	return -1
}

// reduced takes in a reduction: an owner's, or an arbiter's.
func (o *Orchestrator) reduced(m *miner, r *message.Receipt) {
	id := r.GetTask()
	if o.Phase != Reducing || id.GetEpoch() != o.Epoch || int(id.GetStage()) >= len(o.Stages) ||
		int(id.GetShard()) >= len(o.Stages[id.GetStage()].Shards) {
		o.Counters.RefusedLate++
		o.refuse(m, r, "this reduction came late: nothing is held against you")
		return
	}
	s := o.Stages[id.GetStage()]
	sh := s.Shards[id.GetShard()]
	fine := r.GetFault() == message.Fault_FAULT_NONE && len(r.GetOutputs()) == 1
	if sh.Arbiter == m.Number && r.GetAttempt() == sh.ArbiterAt {
		o.arbitratedShard(s, sh, r, fine)
		return
	}
	for side, owner := range sh.Owners {
		if s.Cohort[owner].Miner != m.Number || sh.Closed[side] || sh.Results[side] != nil || r.GetAttempt() != sh.Attempt[side] {
			continue
		}
		if !fine {
			sh.Closed[side] = true
			o.alert("miner %d could not do %s: %s %s", m.Number+1, id.Key(), r.GetFault(), r.GetNote())
			return
		}
		result := newRef(r.GetOutputs()[0])
		sh.Results[side] = &result
		o.Counters.MergeBytes += result.Size + s.shareSize(s.indexOf(sh))
		if side == 0 || sh.Results[0] == nil {
			o.screenSources(s, r)
		}
		return
	}
	o.Counters.RefusedLate++
	o.refuse(m, r, "this reduction is not awaited from you")
}

// shareSize is what an owner of shard i fetches: that shard of every share, in bytes.
func (s *stage) shareSize(i int) uint64 {
	var sum uint64
	for _, me := range s.Cohort {
		if me.Shares != nil {
			sum += me.Shares[i].Size
		}
	}
	return sum
}

// screenSources blames the sources that were not finite, and adds up the spread of the replicas: the squared distance of
// every source from the result.
func (o *Orchestrator) screenSources(s *stage, r *message.Receipt) {
	i := 0
	for _, me := range s.Cohort {
		if me.Shares == nil {
			continue
		}
		if i >= len(r.GetSources()) {
			return
		}
		st := r.GetSources()[i]
		i++
		m := o.Miners[me.Miner]
		if me.Unfit {
			continue
		}
		if !st.GetFinite() {
			me.Unfit = true
			o.alert("miner %d shared values that are not finite; they are not merged", m.Number+1)
			o.nonFinite(m)
			continue
		}
		m.Spread += finite(max(0, st.GetNorm2()-float64(2*st.GetDot())+r.GetResultNorm2()))
	}
}

// leaveReducing settles every shard it can and goes on when all are settled, or when the time is up.
func (o *Orchestrator) leaveReducing() bool {
	open := 0
	for _, s := range o.Stages {
		for _, sh := range s.Shards {
			if !sh.Done && !o.settleShard(s, sh) {
				open++
			}
		}
	}
	if open > 0 && o.Now < o.Until {
		return false
	}
	for _, s := range o.Stages {
		for _, sh := range s.Shards {
			if !sh.Done {
				sh.Closed, sh.Arbiter = [2]bool{true, true}, -1
				o.settleShard(s, sh)
			}
		}
	}
	o.startInstalling()
	return true
}

// settleShard decides a shard as far as the results allow: two equal ones agree, a lone one stands when no other can
// come, none at all is a lost shard, two different ones go to an arbiter.
func (o *Orchestrator) settleShard(s *stage, sh *shard) bool {
	a, b := sh.Results[0], sh.Results[1]
	switch {
	case sh.Arbiter >= 0:
		return false
	case a != nil && b != nil && a.same(*b):
		o.agree(s, sh, [2]bool{true, true})
		sh.Final, sh.Done = a, true
	case a != nil && b != nil:
		return o.callArbiter(s, sh)
	case (a == nil && !sh.Closed[0]) || (b == nil && !sh.Closed[1]):
		return false
	case a != nil:
		sh.Final, sh.Done = a, true
	case b != nil:
		sh.Final, sh.Done = b, true
	default:
		sh.Lost, sh.Done = true, true
	}
	return true
}

// agree enters a shard into its owners' agreement.
func (o *Orchestrator) agree(s *stage, sh *shard, fine [2]bool) {
	for side, owner := range sh.Owners {
		if m := o.Miners[s.Cohort[owner].Miner]; fine[side] {
			m.Agreed++
		} else {
			m.Disagreed++
		}
	}
}

// callArbiter has a miner outside the dispute reduce the shard once more. Without one the shard counts as lost, and the
// disagreement stands against both.
func (o *Orchestrator) callArbiter(s *stage, sh *shard) bool {
	if !sh.Disputed {
		sh.Disputed = true
		o.Counters.Disagreements++
		s.Disagreements++
	}
	var list []*miner
	for _, m := range o.Miners {
		if m.active() && m.Number != s.Cohort[sh.Owners[0]].Miner && m.Number != s.Cohort[sh.Owners[1]].Miner {
			list = append(list, m)
		}
	}
	if len(list) == 0 || o.Now >= o.Until {
		o.agree(s, sh, [2]bool{false, false})
		o.alert("the owners of shard %d of stage %d disagree and nobody can arbitrate: the shard is lost", s.indexOf(sh), s.Index)
		sh.Lost, sh.Done = true, true
		return true
	}
	m := list[o.dice.IntN(len(list))]
	s.Attempts++
	sh.Arbiter, sh.ArbiterAt = m.Number, s.Attempts
	o.sendTask(m, o.reduceTask(s, sh, sh.ArbiterAt))
	return false
}

// arbitratedShard decides a disputed shard: whoever differs from the arbiter lied.
func (o *Orchestrator) arbitratedShard(s *stage, sh *shard, r *message.Receipt, fine bool) {
	sh.Arbiter, sh.Done = -1, true
	if !fine {
		sh.Lost = true
		o.agree(s, sh, [2]bool{false, false})
		return
	}
	truth := newRef(r.GetOutputs()[0])
	sh.Final = &truth
	right := [2]bool{sh.Results[0].same(truth), sh.Results[1].same(truth)}
	o.agree(s, sh, right)
	for side, owner := range sh.Owners {
		if !right[side] {
			o.alert("miner %d merged shard %d of stage %d wrongly", s.Cohort[owner].Miner+1, s.indexOf(sh), s.Index)
		}
	}
}

// closeShards stops waiting for the reductions of a miner that is gone.
func (o *Orchestrator) closeShards(m *miner) {
	if o.Phase != Reducing {
		return
	}
	for _, s := range o.Stages {
		for _, sh := range s.Shards {
			if sh.Done {
				continue
			}
			if sh.Arbiter == m.Number {
				sh.Arbiter = -1
			}
			for side, owner := range sh.Owners {
				if s.Cohort[owner].Miner == m.Number && sh.Results[side] == nil {
					sh.Closed[side] = true
				}
			}
		}
	}
}

// remindShards repeats the reductions and the arbitration that are still awaited from a miner.
func (o *Orchestrator) remindShards(m *miner) {
	for _, s := range o.Stages {
		if o.Phase == Installing && s.Arbiter == m.Number {
			o.sendTask(m, o.outerTask(s))
		}
		for _, sh := range s.Shards {
			if o.Phase != Reducing || sh.Done {
				continue
			}
			if sh.Arbiter == m.Number {
				o.sendTask(m, o.reduceTask(s, sh, sh.ArbiterAt))
			}
			for side, owner := range sh.Owners {
				if s.Cohort[owner].Miner == m.Number && sh.Results[side] == nil && !sh.Closed[side] {
					o.sendTask(m, o.reduceTask(s, sh, sh.Attempt[side]))
				}
			}
		}
	}
}

// mergedShards are the inputs of an install: one reference per shard, an empty one for a lost shard.
func (s *stage) mergedShards() []*message.BlobRef {
	list := make([]*message.BlobRef, len(s.Shards))
	for i, sh := range s.Shards {
		list[i] = &message.BlobRef{}
		if sh.Final != nil {
			list[i] = sh.Final.blob()
		}
	}
	return list
}
