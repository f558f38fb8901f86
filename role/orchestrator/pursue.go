package orchestrator

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// pursueAudits moves audits on: leases end, states are asked for, judges are found. Nothing else waits for it.
func (o *Orchestrator) pursueAudits() {
	if len(o.Audits) == 0 || o.Finished {
		return
	}
	busy := o.busyJudges()
	free := o.freeValidator(busy)
	if !slices.ContainsFunc(o.Audits, func(a *audit) bool { return o.due(a, free) }) {
		return
	}
	for _, a := range o.inTurn() {
		var silent []judge
		a.Leases = slices.DeleteFunc(a.Leases, func(l replayLease) bool {
			if late := o.Now >= l.Until; late {
				o.Counters.LeasesExpired++
				a.Declined = append(a.Declined, l.Judge)
				silent = append(silent, l.Judge)
				return true
			}
			return false
		})
		for _, j := range silent {
			o.silent(j)
		}
		switch {
		case o.outdated(a):
			o.giveUpAudit(a)
		case a.awaits():
			o.askState(a)
		default:
			for len(a.Leases)+len(a.Answers) < a.Need && o.findJudge(a, busy) {
			}
		}
	}
}

// inTurn are the open audits in the order in which they are answered: by rank, then those first whose miner's pay has waited
// longest for a proof. Among equals the newest epoch comes first, in an order by lot: where validators are too few, some
// audits end without a verdict whatever the order, so the others' verdicts come early, and no miner is safer than another.
func (o *Orchestrator) inTurn() []*audit {
	list, since := slices.Clone(o.Audits), map[*audit]uint64{}
	for _, a := range list {
		since[a] = o.waitsSince(a)
	}
	slices.SortStableFunc(list, func(a, b *audit) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(since[a], since[b]), cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(a.Lot, b.Lot))
	})
	return list
}

// due reports whether an audit can move on now. It is asked of every audit after every event, so that those that cannot
// cost little.
func (o *Orchestrator) due(a *audit, free bool) bool {
	switch {
	case slices.ContainsFunc(a.Leases, func(l replayLease) bool { return o.Now >= l.Until }), o.outdated(a):
		return true
	case a.awaits():
		return a.Asked == 0 && o.Miners[a.Miner].Connected && !o.tooLate(a)
	}
	return len(a.Leases)+len(a.Answers) < a.Need && (free || len(a.Answers) > 0 || a.Planted)
}

// rank orders audits for judges: what needs another opinion, what there is a reason for, and the others.
func (a *audit) rank() int {
	switch {
	case len(a.Answers) > 0:
		return 0
	case a.First:
		return 1
	}
	return 2
}

// outdated reports whether an audit cannot end any more, or need not: its window closed, its miner lost its state with
// its process, or was withdrawn.
func (o *Orchestrator) outdated(a *audit) bool {
	if o.Epoch > a.Epoch+uint64(max(1, o.rules.GetChallengeWindow())) {
		return true
	}
	if a.State == nil && a.Segment.Step > 0 && o.Epoch > a.Epoch+1 {
		return true // miners keep states at steps no longer
	}
	if a.Miner >= 0 {
		m := o.Miners[a.Miner]
		return m.Barred != "" || a.awaits() && !bytes.Equal(m.Session, a.Session)
	}
	return !slices.ContainsFunc(a.Parties, func(p party) bool { return o.Miners[p.Miner].Barred == "" })
}

// closeWindow ends the audits whose window closes with the running epoch, before its pay leaves escrow: a miner that kept
// its state back until then is not paid.
func (o *Orchestrator) closeWindow() {
	for _, a := range slices.Clone(o.Audits) {
		if a.Epoch+1 < o.Epoch && o.outdated(a) { // the epoch that just ended has no pay yet that could be burned
			o.giveUpAudit(a)
		}
	}
}

// giveUpAudit ends an audit without a verdict. A miner that worked on and kept its state back is charged with it.
func (o *Orchestrator) giveUpAudit(a *audit) {
	awaits := a.awaits()
	if awaits && a.Asked > 0 {
		m := o.Miners[a.Miner]
		if m.Connected && bytes.Equal(m.Session, a.Session) && m.LastDone > a.Asked+time.Duration(o.rules.GetLease()) {
			o.withheld(m, a)
			return
		}
	}
	o.endAudit(a)
	o.AuditTotals.Unverified++
	switch {
	case awaits:
		o.unproven(o.Miners[a.Miner], a.Epoch)
	case len(a.Answers) == 0 && len(a.Declined) == 0:
		o.Unjudged++
	case a.Acked > 0 && len(a.Answers) > 0 && !a.against(0): // only the second opinion did not come
		o.proves(a, o.Miners[a.Miner])
	}
}

// endAudit takes an audit off the list. Judges at work on it may stop.
func (o *Orchestrator) endAudit(a *audit) {
	for _, l := range a.Leases {
		o.orderJudge(l.Judge, &message.Order{Kind: &message.Order_Cancel{Cancel: &message.Cancel{Task: o.replayTask(a, 0).GetId(), Attempt: l.Attempt}}})
	}
	o.Audits = slices.DeleteFunc(o.Audits, func(b *audit) bool { return b == a })
}

// cannotReplay ends an audit whose work nobody can do again: it stays unverified, and unpaid.
func (o *Orchestrator) cannotReplay(m *miner, a *audit) {
	o.endAudit(a)
	o.AuditTotals.Unverified++
	o.unproven(m, a.Epoch)
}

// withheld ends an audit that a miner itself made impossible. Whoever does so in one epoch after the other, though it
// works on, has something to hide.
func (o *Orchestrator) withheld(m *miner, a *audit) {
	o.cannotReplay(m, a)
	if m.WithheldIn > a.Epoch {
		return
	}
	m.WithheldIn = a.Epoch + 1
	if m.Withheld++; m.Withheld >= maxWithheld {
		o.convict(m, Evidence{Epoch: a.Epoch, Stage: a.Stage, What: "it does not give what its log could be replayed with"})
	}
}

// askState has a miner store the states that the segment of an audit needs: the private one of the epoch's start, and the
// one that it resumes. What another audit asks for already, it gets too.
func (o *Orchestrator) askState(a *audit) {
	m := o.Miners[a.Miner]
	if a.Asked > 0 || !m.Connected || o.tooLate(a) {
		return
	}
	asked := func(step uint64) bool {
		return slices.ContainsFunc(o.Audits, func(b *audit) bool {
			return b.Asked > 0 && b.Miner == a.Miner && b.Epoch == a.Epoch && (step == 0 || b.Segment.Step == step)
		})
	}
	for _, step := range a.lacks() {
		if !asked(step) {
			o.sendTask(m, o.stateTask(a, step))
		}
	}
	a.Asked = max(1, o.Now)
}

// tooLate reports whether a miner may have forgotten a state that an audit needs: with an install it drops those of steps
// of the epoch before. What was ordered earlier it does first.
func (o *Orchestrator) tooLate(a *audit) bool { return a.Segment.Step > 0 && o.Phase == Installing }

// awaits reports whether its miner has not stored all states that an audit needs.
func (a *audit) awaits() bool {
	return a.Miner >= 0 && a.Private == nil || a.Segment.Step > 0 && a.State == nil
}

// lacks are the steps whose state an audit waits for, 0 for the epoch's start.
func (a *audit) lacks() []uint64 {
	var steps []uint64
	if a.Miner >= 0 && a.Private == nil {
		steps = append(steps, 0)
	}
	if a.Segment.Step > 0 && a.State == nil {
		steps = append(steps, a.Segment.Step)
	}
	return steps
}

func (o *Orchestrator) stateTask(a *audit, step uint64) *message.Task {
	return &message.Task{Attempt: 1, Id: &message.TaskID{Kind: message.TaskKind_STATE, Epoch: a.Epoch, Stage: uint32(a.Stage), Batch: step}}
}

// remindStates repeats to a returning miner which states it is asked for.
func (o *Orchestrator) remindStates(m *miner) {
	for _, a := range o.Audits {
		if a.Miner == m.Number && a.Asked > 0 && !o.tooLate(a) {
			for _, step := range a.lacks() {
				o.sendTask(m, o.stateTask(a, step))
			}
		}
	}
	o.remindJudge(judge{false, m.Number})
}

// stateGiven takes in a state, which judges compute the commitment of, for all audits that wait for it.
func (o *Orchestrator) stateGiven(m *miner, r *message.Receipt) {
	id := r.GetTask()
	for _, a := range slices.Clone(o.Audits) {
		if a.Miner != m.Number || a.Epoch != id.GetEpoch() || a.Stage != int(id.GetStage()) || !slices.Contains(a.lacks(), id.GetBatch()) {
			continue
		}
		switch {
		case r.GetFault() != message.Fault_FAULT_NONE || len(r.GetOutputs()) != 1:
			o.withheld(m, a)
			continue
		case id.GetBatch() == 0:
			a.Private = &ref{}
			*a.Private = newRef(r.GetOutputs()[0])
		default:
			a.State = &ref{}
			*a.State = newRef(r.GetOutputs()[0])
		}
	}
	o.gaveAll(m, id.GetEpoch())
}

// gaveAll ends a row of epochs with states kept back, once a miner gave all that audits of an epoch asked for.
func (o *Orchestrator) gaveAll(m *miner, epoch uint64) {
	lacks := func(a *audit) bool { return a.Miner == m.Number && a.Epoch == epoch && a.awaits() }
	if m.WithheldIn <= epoch && !slices.ContainsFunc(o.Audits, lacks) {
		m.Withheld = 0
	}
}

// boundAudits keeps the size of the state within bounds: where open audits have too many bytes the largest one ends. So
// whoever fills a log displaces its own audits, and waits for a proof.
func (o *Orchestrator) boundAudits(a *audit) {
	for _, list := range append([][][]byte{a.Order}, receiptsOf(a.Parties)...) {
		for _, b := range list {
			a.Bytes += len(b)
		}
	}
	for {
		total := 0
		for _, b := range o.Audits {
			total += b.Bytes
		}
		if total <= maxBytes {
			return
		}
		o.endAudit(slices.MaxFunc(o.Audits, func(a, b *audit) int { return cmp.Compare(a.Bytes, b.Bytes) }))
		o.AuditTotals.Unverified++
	}
}

func receiptsOf(parties []party) (list [][][]byte) {
	for _, p := range parties {
		list = append(list, p.Receipts)
	}
	return list
}
