package main

import (
	"slices"

	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
	"github.com/iota-train/iota/sim/adversary"
)

// How likely a cheat is found in an epoch, by docs/economics.md: from what the draw is over, which is how many tasks each
// segment of the log has. What was false of them, what was drawn and what became of it play no part.

// cheatLaw is what follows from one act of a kind. What it makes false is the adversary's to say (adversary.Falsifies).
type cheatLaw struct {
	loud     bool   // a false share is screened
	older    bool   // it gives something older: its first result and the share of the first epoch are true
	disputed bool   // the other owner of the shard sees it, which has it audited
	joint    bool   // both owners of a shard do it, so that nobody sees it
	hidden   bool   // a replay passes over it, because nothing was done
	charge   charge // what others hold against an act before any audit
}

// charge is how acts add up that others see in the flow of the work: as many as orchestrator.MaxFaults withdraw a miner.
type charge int

const (
	uncharged charge = iota
	row              // one after the other, ended by a good result
	sum              // all of them. The task goes to somebody else, so that any number of them comes before a good one
)

// cheatLaws are those of every kind of miner that makes something false. slow and drop do not.
var cheatLaws = map[string]cheatLaw{
	"free-rider":     {loud: true},
	"zero":           {loud: true},
	"scale":          {loud: true},
	"sign-flip":      {loud: true},
	"stale":          {older: true},
	"copy":           {older: true},
	"backward-noise": {},
	"bad-reduce":     {disputed: true},
	"collude-reduce": {joint: true},
	"nan":            {charge: row},
	"false-nan":      {charge: sum},
	"false-missing":  {hidden: true, charge: sum},
	"false-unfit":    {disputed: true},
}

// prospect follows a cheater that is not found yet. unfound[c] is the probability that it is not, and has c charges.
type prospect struct {
	law        cheatLaw
	kind       string
	rate       float64
	shardShare float64
	chance     func(weight, suspicion float64) float64
	unfound    [orchestrator.MaxFaults]float64
}

// start begins with a cheater that nothing is known of.
func (p *prospect) start() { p.unfound = [orchestrator.MaxFaults]float64{1} }

// epoch returns the probability that the epoch's cheating is found, given that none was before: over some logs, the mean.
func (p *prospect) epoch(epoch int, logs [][]orchestrator.Prospect) float64 {
	before := mass(p.unfound)
	if before == 0 { // by the law it had been found: what is not, starts anew
		p.start()
		before = 1
	}
	var after [orchestrator.MaxFaults]float64
	for _, log := range logs {
		for i, x := range p.through(epoch, log) {
			after[i] += x / float64(len(logs))
		}
	}
	p.unfound = after
	return max(0, 1-mass(after)/before)
}

// through is unfound after a log: the sum over a true and a false share, since a false one may have all of the log drawn
// more often.
func (p *prospect) through(epoch int, log []orchestrator.Prospect) [orchestrator.MaxFaults]float64 {
	if len(log) == 0 {
		return p.unfound
	}
	closing := log[len(log)-1]
	lie := 0.0
	if slices.ContainsFunc(closing.Own, func(r *message.Receipt) bool { return p.acts(r, message.TaskKind_SHARE) }) && !(p.law.older && epoch == 0) {
		lie = p.rate
	}
	after := p.withShare(epoch, log, false)
	bad := p.withShare(epoch, log, true)
	for i := range after {
		after[i] = float64((1-lie)*after[i]) + float64(lie*bad[i])
		after[i] *= p.merge(closing)
	}
	return after
}

// acts reports whether the kind makes a receipt false, of a task of one of these kinds.
func (p *prospect) acts(r *message.Receipt, tasks ...message.TaskKind) bool {
	return slices.Contains(tasks, r.GetTask().GetKind()) && adversary.Falsifies(p.kind, r)
}

var flow = []message.TaskKind{message.TaskKind_FORWARD, message.TaskKind_LOSS, message.TaskKind_BACKWARD, message.TaskKind_EVALUATE}

// withShare goes through a log, segment by segment: whoever has something false in one is not found if it is not drawn.
func (p *prospect) withShare(epoch int, log []orchestrator.Prospect, falseShare bool) [orchestrator.MaxFaults]float64 {
	suspicion := 1.0
	if falseShare && p.law.loud {
		suspicion += orchestrator.FlagWeight
	}
	clean, first := p.unfound, p.law.older && epoch == 0
	for _, s := range log {
		var dirty [orchestrator.MaxFaults]float64
		for _, r := range s.Own {
			switch {
			case !p.acts(r, flow...):
			case first:
				first = false
			default:
				clean, dirty = p.act(p.rate, clean, dirty)
			}
		}
		if s.Closing && falseShare {
			clean, dirty = p.act(1, clean, dirty)
		}
		for i := range clean {
			clean[i] += float64(dirty[i] * (1 - p.chance(s.Weight, suspicion)))
		}
	}
	return clean
}

// act is one task: with this rate it is false, which its segment then shows, and counts as a charge. A false claim is
// followed by another task in its place.
func (p *prospect) act(rate float64, clean, dirty [orchestrator.MaxFaults]float64) (c, d [orchestrator.MaxFaults]float64) {
	if p.law.charge != sum {
		return p.once(rate, clean, dirty)
	}
	for range len(clean) {
		goodClean, goodDirty := p.once(0, clean, dirty)
		for i := range c {
			c[i] += float64((1 - rate) * goodClean[i])
			d[i] += float64((1 - rate) * goodDirty[i])
		}
		clean, dirty = p.once(1, clean, dirty)
		for i := range clean {
			clean[i], dirty[i] = float64(rate*clean[i]), float64(rate*dirty[i])
		}
	}
	return c, d
}

// once is one result.
func (p *prospect) once(rate float64, clean, dirty [orchestrator.MaxFaults]float64) (c, d [orchestrator.MaxFaults]float64) {
	for i := range clean {
		good, next := i, i
		switch p.law.charge {
		case row:
			good, next = 0, i+1
		case sum:
			next = i + 1
		}
		c[good] += float64((1 - rate) * clean[i])
		d[good] += float64((1 - rate) * dirty[i])
		switch shown := float64(rate * (clean[i] + dirty[i])); {
		case next >= len(d): // it is withdrawn
		case p.law.hidden:
			c[next] += shown
		default:
			d[next] += shown
		}
	}
	return c, d
}

// merge is the probability that what the miner reduced does not give it away. A dispute always has its shard audited. What
// two owners agree on shows if the shard is drawn, or the closing segment of one of them.
func (p *prospect) merge(closing orchestrator.Prospect) float64 {
	unseen := 1.0
	switch {
	case p.law.joint:
		drawn := p.chance(closing.Weight, 1)
		return 1 - float64(p.rate*(1-float64((1-p.shardShare)*(1-drawn)*(1-drawn))))
	case p.law.disputed:
		for _, r := range closing.Own {
			if p.acts(r, message.TaskKind_REDUCE) {
				unseen *= 1 - p.rate
			}
		}
	}
	return unseen
}

func mass(x [orchestrator.MaxFaults]float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}
