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
func (o *Orchestrator) reduced(m *miner, r *message.Receipt, raw []byte) {
	id := r.GetTask()
	if o.Phase != Reducing || id.GetEpoch() != o.Epoch || int(id.GetStage()) >= len(o.Stages) ||
		int(id.GetShard()) >= len(o.Stages[id.GetStage()].Shards) {
		o.Counters.RefusedLate++
		o.refuse(m, r, "this reduction came late: nothing is held against you")
		return
	}
	s := o.Stages[id.GetStage()]
	sh := s.Shards[id.GetShard()]
	result := s.reductionOf(r)
	if !asOrdered(o.reduceTask(s, sh, r.GetAttempt()), r) {
		result = nil
	}
	if sh.Arbiter == m.Number && r.GetAttempt() == sh.ArbiterAt {
		sh.vouch(m, result, raw)
		s.measure(sh, result, r)
		o.arbitratedShard(s, sh, result)
		return
	}
	for side, owner := range sh.Owners {
		if s.Cohort[owner].Miner != m.Number || sh.Closed[side] || sh.Results[side] != nil || r.GetAttempt() != sh.Attempt[side] {
			continue
		}
		if result == nil {
			sh.Closed[side] = true
			o.alert("miner %d could not do %s: %s %s", m.Number+1, id.Key(), r.GetFault(), r.GetNote())
			return
		}
		sh.vouch(m, result, raw)
		s.measure(sh, result, r)
		sh.Results[side] = result
		o.Counters.MergeBytes += result.Result.Size + s.shareSize(s.indexOf(sh))
		if sh.Results[1-side] == nil {
			o.addSpread(s, r)
		}
		return
	}
	o.Counters.RefusedLate++
	o.refuse(m, r, "this reduction is not awaited from you")
}

// vouch keeps the receipt of a reduction until audits are drawn: who reduced a shard is a party to its audit, though its
// process and its log may have ended.
func (sh *shard) vouch(m *miner, result *reduction, raw []byte) {
	if result != nil {
		sh.Vouchers = append(sh.Vouchers, party{m.Number, [][]byte{raw}})
	}
}

// reductionOf reads a reduction from a receipt, nil if it is none: a result, and statistics of every source.
func (s *stage) reductionOf(r *message.Receipt) *reduction {
	if r.GetFault() != message.Fault_FAULT_NONE || len(r.GetOutputs()) != 1 || len(r.GetSources()) != s.sources() {
		return nil
	}
	result, i := &reduction{Result: newRef(r.GetOutputs()[0]), Stats: statsHash(r)}, 0
	for k, me := range s.Cohort {
		if me.Shares == nil {
			continue
		}
		if !r.GetSources()[i].GetFinite() {
			result.Unfit = append(result.Unfit, k)
		}
		i++
	}
	return result
}

// addSpread adds up the spread of the replicas: the squared distance of every finite source from the result. It is for
// people to read, so that the word of a shard's first owner is enough.
func (o *Orchestrator) addSpread(s *stage, r *message.Receipt) {
	i := 0
	for _, me := range s.Cohort {
		if me.Shares == nil {
			continue
		}
		if st := r.GetSources()[i]; st.GetFinite() {
			o.Miners[me.Miner].Spread += finite(max(0, st.GetNorm2()-float64(2*st.GetDot())+r.GetResultNorm2()))
		}
		i++
	}
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
