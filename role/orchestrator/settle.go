package orchestrator

import (
	"bytes"
	"slices"
)

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
		o.screen(s)
	}
	o.startInstalling()
	return true
}

// settleShard decides a shard as far as the results allow: two equal ones agree, a lone one stands when no other can
// come, none at all is a lost shard, two different ones go to an arbiter. A result is the merged shard, which sources
// were left out of it because they are not finite, and what is said of the others: owners that differ in any disagree.
func (o *Orchestrator) settleShard(s *stage, sh *shard) bool {
	a, b := sh.Results[0], sh.Results[1]
	switch {
	case sh.Arbiter >= 0:
		return false
	case a != nil && b != nil && a.same(b):
		o.agree(s, sh, 0, true)
		o.agree(s, sh, 1, true)
		o.settle(s, sh, a)
	case a != nil && b != nil:
		return o.callArbiter(s, sh)
	case (a == nil && !sh.Closed[0]) || (b == nil && !sh.Closed[1]):
		return false
	case a != nil:
		return o.settleAlone(s, sh, 0)
	case b != nil:
		return o.settleAlone(s, sh, 1)
	default:
		sh.Lost, sh.Done = true, true
	}
	return true
}

// settleAlone lets a lone result stand. Its owner is believed about its own share. What it says against others is a
// claim, like any other: an arbiter is asked for a second opinion.
func (o *Orchestrator) settleAlone(s *stage, sh *shard, side int) bool {
	r := sh.Results[side]
	if slices.ContainsFunc(r.Unfit, func(k int) bool { return k != sh.Owners[side] }) {
		return o.callArbiter(s, sh)
	}
	o.settle(s, sh, r)
	return true
}

// settle makes a reduction final that nobody contests. Only now do its unfit sources count: no part of their work is
// merged, even if other shards of theirs are finite, and their makers are at fault, once in an epoch.
func (o *Orchestrator) settle(s *stage, sh *shard, r *reduction) {
	sh.Final, sh.Done = &r.Result, true
	for _, k := range r.Unfit {
		me := s.Cohort[k]
		if me.Unfit {
			continue
		}
		me.Unfit = true
		o.alert("miner %d shared values that are not finite; they are not merged", me.Miner+1)
		o.nonFinite(o.Miners[me.Miner])
	}
}

// agree enters an owner's part in a shard into the agreement.
func (o *Orchestrator) agree(s *stage, sh *shard, side int, fine bool) {
	if m := o.Miners[s.Cohort[sh.Owners[side]].Miner]; fine {
		m.Agreed++
	} else {
		m.Disagreed++
	}
}

// dispute counts a shard about which two miners differ, once.
func (o *Orchestrator) dispute(s *stage, sh *shard) {
	if !sh.Disputed {
		sh.Disputed = true
		o.Counters.Disagreements++
		s.Disagreements++
	}
}

// callArbiter has a miner outside the dispute reduce the shard once more: neither an owner nor whose share one of them
// calls unfit.
func (o *Orchestrator) callArbiter(s *stage, sh *shard) bool {
	var parties []int
	for side, owner := range sh.Owners {
		parties = append(parties, s.Cohort[owner].Miner)
		if r := sh.Results[side]; r != nil {
			for _, k := range r.Unfit {
				parties = append(parties, s.Cohort[k].Miner)
			}
		}
	}
	if sh.Results[0] != nil && sh.Results[1] != nil {
		o.dispute(s, sh)
	}
	var list []*miner
	for _, m := range o.Miners {
		if m.active() && !slices.Contains(parties, m.Number) {
			list = append(list, m)
		}
	}
	if len(list) == 0 || o.Now >= o.Until {
		o.undecided(s, sh)
		return true
	}
	m := list[o.dice.IntN(len(list))]
	s.Attempts++
	sh.Arbiter, sh.ArbiterAt = m.Number, s.Attempts
	o.sendTask(m, o.reduceTask(s, sh, sh.ArbiterAt))
	return false
}

// undecided ends a dispute that nobody arbitrated, which stands against both owners. Of two different results neither can
// be trusted: the shard is lost. Equal ones are merged even if their owners differ in what they say of the sources, or one
// of them could have the shard lost without having to lie about it. A lone result stands, but what it says against a
// source does not: a share's other shards are merged, and one word must not have its work counted as unmerged.
func (o *Orchestrator) undecided(s *stage, sh *shard) {
	sh.Done = true
	for side, r := range sh.Results {
		switch {
		case r == nil:
		case sh.Results[1-side] == nil:
			sh.Final = &r.Result
			return
		default:
			o.agree(s, sh, side, false)
		}
	}
	if a, b := sh.Results[0], sh.Results[1]; a != nil && b != nil && a.Result.same(b.Result) {
		sh.Final = &a.Result
		return
	}
	o.alert("the owners of shard %d of stage %d disagree and nobody can arbitrate: the shard is lost", s.indexOf(sh), s.Index)
	sh.Lost = true
}

// arbitratedShard decides a contested shard: whoever differs from the arbiter was wrong, and whoever called a source
// unfit that is not made a false claim. What the arbiter says against a source counts only if an owner says so too.
func (o *Orchestrator) arbitratedShard(s *stage, sh *shard, truth *reduction) {
	sh.Arbiter = -1
	if truth == nil {
		o.undecided(s, sh)
		return
	}
	final := &reduction{Result: truth.Result}
	for side, r := range sh.Results {
		if r == nil {
			continue
		}
		claims := len(r.Unfit)
		for _, k := range r.Unfit {
			if slices.Contains(truth.Unfit, k) {
				final.Unfit = append(final.Unfit, k) // settle counts it once
				claims--
			}
		}
		frank := !slices.Equal(r.Unfit, truth.Unfit) || bytes.Equal(r.Stats, truth.Stats)
		o.judge(s, sh, side, r.Result.same(truth.Result), claims == 0, frank)
	}
	o.settle(s, sh, final)
}

// judge enters what an arbiter found of an owner: whether it merged the shard well, blamed no sound source, and said of
// the sources what is true.
func (o *Orchestrator) judge(s *stage, sh *shard, side int, merged, fair, frank bool) {
	o.agree(s, sh, side, merged && fair && frank)
	m := o.Miners[s.Cohort[sh.Owners[side]].Miner]
	if !merged {
		o.alert("miner %d merged shard %d of stage %d wrongly", m.Number+1, s.indexOf(sh), s.Index)
	}
	if !fair {
		o.refuted(m, falseClaim)
	}
	if merged && !frank {
		o.alert("miner %d misstated the sources of shard %d of stage %d", m.Number+1, s.indexOf(sh), s.Index)
	}
	if !merged || !fair || !frank {
		o.dispute(s, sh)
	}
}
