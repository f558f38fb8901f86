package orchestrator

import (
	"encoding/hex"
	"slices"

	"github.com/iota-train/iota/protocol/message"
)

// drawAudits draws from the epoch that an install just ended. Every segment of a log and every shard is tossed for on its
// own: a segment with the audit share as probability, higher for a suspect miner and for the closing segment of a log, a
// shard with the shard share. Nobody knows before what will be replayed, and the dice are cast when nothing can be changed. A shard that only one
// miner vouches for, or about which two differ, is always drawn.
func (o *Orchestrator) drawAudits() {
	if n := o.Unjudged; n > 0 {
		o.alert("%d audits found no validator in time: start another one, or a new run with a lower audit share", n)
		o.Unjudged = 0
	}
	if o.rules.GetAuditShare() <= 0 {
		return
	}
	logs := make([][]*message.Receipt, len(o.Miners))
	for i, m := range o.Miners {
		for _, raw := range m.Receipts {
			logs[i] = append(logs[i], opened(raw))
		}
	}
	if o.validated() {
		for i, m := range o.Miners {
			o.drawLog(m, logs[i])
			o.drawProof(m, logs[i])
		}
		for _, s := range o.Stages {
			for _, sh := range s.Shards {
				o.drawShard(s, sh)
			}
		}
	}
	for i, m := range o.Miners {
		m.cutLog(o.Epoch, logs[i])
	}
}

// cutLog forgets the log of an epoch but for the install that the next one's begins with.
func (m *miner) cutLog(epoch uint64, log []*message.Receipt) {
	from := len(log)
	if len(m.Receipts) != from { // it was withdrawn meanwhile
		return
	}
	for i, r := range log {
		if id := r.GetTask(); id.GetKind() == message.TaskKind_INSTALL && id.GetEpoch() == epoch && r.GetFault() == message.Fault_FAULT_NONE {
			from = i
		}
	}
	m.Receipts = slices.Clone(m.Receipts[from:])
	m.LogFull, m.LogBytes = false, 0
}

// FlagWeight is what a flag, of CLASP or of a screen, adds to a miner's weight in the draw.
const FlagWeight = 3

// suspicion is the weight of a miner in the draw: 1 for one that nothing speaks against. Honest miners are flagged now and
// then, so flags direct audits and cost nothing.
func (o *Orchestrator) suspicion(m *miner) float64 {
	weight := 1 + float64(m.Disagreed)
	for _, flag := range []bool{m.Clasp.Flagged, m.Screened} {
		if flag {
			weight += FlagWeight
		}
	}
	return weight
}

// drawLog tosses for every segment of a miner's log.
func (o *Orchestrator) drawLog(m *miner, log []*message.Receipt) {
	total := 0.0
	for _, r := range log {
		total += o.units(r)
	}
	if total == 0 && len(m.Acks) == 0 {
		return
	}
	o.AuditTotals.Work += total
	switch {
	case m.LogFull: // what is not kept cannot be drawn, so the draw would be no risk
		o.alert("the log of miner %d is longer than what is kept: its work of epoch %d is not verified", m.Number+1, o.Epoch)
		o.unproven(m, o.Epoch)
		return
	case !m.sumsAcked(log):
		o.alert("the steps of miner %d sum other gradients than were acknowledged to it: its work of epoch %d is not verified", m.Number+1, o.Epoch)
		o.unproven(m, o.Epoch)
	}
	prospects := o.prospects(log)
	if prospects == nil { // it commits to what it cannot have: no draw decides whether that is paid
		o.withheld(m, &audit{Epoch: o.Epoch, Stage: m.Stage, Miner: m.Number})
		return
	}
	for _, p := range prospects {
		if o.dice.Float64() < o.Chance(p.Weight, o.suspicion(m)) && m.Barred == "" {
			o.openLog(m, p.Segment, log)
		}
	}
}

// sumsAcked reports whether a log sums the gradients that were acknowledged, in their order. A replay could not tell:
// what a step sums is part of what it is told. It convicts nobody: a miner that lost a gradient, with a connection for
// instance, has no better way to go on.
func (m *miner) sumsAcked(log []*message.Receipt) bool {
	n := 0
	for _, r := range log {
		if r.Undone() {
			continue // what was not done sums nothing
		}
		for _, s := range r.GetSummed() {
			if n >= len(m.Acks) || m.Acks[n].Batch != s.GetBatch() || m.Acks[n].Attempt != s.GetAttempt() {
				return false
			}
			n++
		}
		if r.GetTask().GetKind() == message.TaskKind_SHARE && n < len(m.Acks) {
			return false
		}
	}
	return true
}

// keptStep is the last step of an epoch whose commitment's state miners keep.
func (o *Orchestrator) keptStep() uint64 { return uint64(o.rules.GetInnerSteps()) }

// openLog opens the audit of a segment of a miner's log.
func (o *Orchestrator) openLog(m *miner, s message.Segment, log []*message.Receipt) {
	a := &audit{Epoch: o.Epoch, Shard: -1, Miner: m.Number, Session: m.Session, Stage: m.Stage, Segment: s,
		First:   o.suspicion(m) > 1,
		Parties: []party{{Miner: m.Number}}}
	for i, at := range s.Receipts {
		a.Parties[0].Receipts = append(a.Parties[0].Receipts, m.Receipts[at])
		if i >= s.Own {
			a.Units += o.units(log[at])
		}
	}
	a.Acked, a.Unmerged = o.ackedIn(m, s, log), o.unmergedIn(m, s, log)
	o.AuditTotals.Segments++
	if !o.fillLog(a) { // too long, or its blobs are gone
		o.cannotReplay(m, a)
		return
	}
	o.open(a)
	if o.dice.Float64() < plantedShare {
		o.plant(*a)
	}
}

// fillLog prepares what judges get of a log, and reports whether it can be replayed: whether it begins with a known state
// and every blob that it reads is at hand.
func (o *Orchestrator) fillLog(a *audit) bool {
	receipts, size := a.Parties[0].Receipts, 0
	first := opened(receipts[0])
	switch kind := first.GetTask().GetKind(); {
	case first.GetFault() != message.Fault_FAULT_NONE:
		return false
	case kind == message.TaskKind_INSTALL && len(first.GetOutputs()) == 1:
		start := newRef(first.GetOutputs()[0])
		a.Checkpoint = &start
		if !o.stored(start.Hash) {
			return false
		}
	case kind != message.TaskKind_LOAD:
		return false
	}
	for i, raw := range receipts {
		r := opened(raw).Ordered()
		b := message.Encode(r)
		if a.Order, size = append(a.Order, b), size+len(b); size > maxOrder {
			return false
		}
		begins := i == 0 && a.Checkpoint != nil
		if !begins && !o.collect(a, r) {
			return false
		}
	}
	return true
}

// maxOrder bounds the log of an audit, in bytes: it and what comes of it must fit into a message.
const maxOrder = message.MaxSize / 4

// collect adds the blobs that a receipt reads to those of an audit.
func (o *Orchestrator) collect(a *audit, r *message.Receipt) bool {
	if r.Undone() {
		return true
	}
	for _, hash := range r.BlobHashes() {
		if len(hash) == 0 || slices.ContainsFunc(a.Blobs, func(b ref) bool { return string(b.Hash) == string(hash) }) {
			continue
		}
		b, ok := o.Blobs[hex.EncodeToString(hash)]
		if !ok {
			return false
		}
		a.Blobs = append(a.Blobs, ref{hash, b.Size})
	}
	return true
}

func (o *Orchestrator) stored(hash []byte) bool {
	_, ok := o.Blobs[hex.EncodeToString(hash)]
	return ok
}

// drawShard tosses for a merged shard; one that a single miner vouches for, or about which two differed, is drawn in any
// case. What is to be done is the core's own order, not the owners' word, and everybody who reduced the shard is a party:
// two owners who agree on a wrong result are both found, and of two who differ the liar, also where nobody could arbitrate.
func (o *Orchestrator) drawShard(s *stage, sh *shard) {
	if sh.Final == nil && !sh.Disputed {
		return
	}
	lone := sh.Results[0] == nil || sh.Results[1] == nil
	if drawn := o.dice.Float64() < o.rules.GetShardShare(); !lone && !sh.Disputed && !drawn {
		return
	}
	t := o.reduceTask(s, sh, 0)
	r := &message.Receipt{Task: t.GetId(), Weights: t.GetWeights(), Elements: sh.To - sh.From}
	for _, in := range t.GetInputs() {
		r.Inputs = append(r.Inputs, in.GetHash())
	}
	a := &audit{Stage: s.Index, Shard: s.indexOf(sh), Miner: -1, Order: [][]byte{message.Encode(r)}, First: lone || sh.Disputed}
	for _, p := range sh.Vouchers {
		if !slices.ContainsFunc(a.Parties, func(q party) bool { return q.Miner == p.Miner }) {
			a.Parties = append(a.Parties, p)
		}
	}
	o.AuditTotals.Shards++
	if len(a.Parties) == 0 || !o.collect(a, r) {
		o.AuditTotals.Unverified++
		return
	}
	o.open(a)
}

// open adds an audit of this epoch to those under way.
func (o *Orchestrator) open(a *audit) {
	if len(o.Audits) >= maxAudits {
		o.AuditTotals.Unverified++
		return
	}
	o.AuditCount++
	a.Number, a.Epoch, a.Need, a.Lot = o.AuditCount, o.Epoch, 1, o.dice.Float64()
	if a.Planted || o.dice.Float64() < doubleShare {
		a.Need = 2
	}
	o.AuditTotals.Drawn += a.Units * float64(a.Need)
	o.Audits = append(o.Audits, a)
	o.boundAudits(a)
}
