package orchestrator

import (
	"math"
	"slices"
	"time"

	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// A miner's pay leaves escrow when its challenge window has closed and a replay of that key's work, of the same epoch or a
// later one, has passed: the proof. So who does everything falsely is never paid, however much validators have to do; all
// that too few of them cost the others is time. docs/economics.md has the rule, the ledger keeps it.

// proves has the ledger note the proof that a passed audit is. It must have replayed work that is paid: a reduction is
// cheap, and who does that honestly may have made up everything else.
func (o *Orchestrator) proves(a *audit, m *miner) {
	if a.Acked > 0 {
		o.Books.Ledger.Prove(m.Key, a.Epoch)
	}
}

// against reports whether an answer says that a party's receipts do not hold.
func (a *audit) against(party int) bool {
	return slices.ContainsFunc(a.Answers, func(x answer) bool { return x.Differs[party] != "" })
}

// ackedIn counts the micro-batches whose gradients a segment computed and that were acknowledged. Each counts in one
// segment of its epoch only, however often its miner states it.
func (o *Orchestrator) ackedIn(m *miner, s message.Segment, log []*message.Receipt) (batches uint64) {
	own := s.Receipts[s.Own:]
	for _, a := range m.Acks {
		at := slices.IndexFunc(log, func(r *message.Receipt) bool {
			id, done := r.GetTask(), r.GetFault() == message.Fault_FAULT_NONE
			return done && id.GetKind() == a.Kind && id.GetEpoch() == o.Epoch && id.GetBatch() == a.Batch && r.GetAttempt() == a.Attempt
		})
		if slices.Contains(own, at) {
			batches++
		}
	}
	return batches
}

// drawProof draws one segment of a miner's log for certain where its pay would have to wait for the dice: escrow whose
// window closes with the next epoch is not proven, or this is the run's last epoch; and no audit is open that could prove
// it. So it costs a miner's key one segment per window at most, and one at the end.
func (o *Orchestrator) drawProof(m *miner, log []*message.Receipt) {
	of, due := o.Books.Ledger.Waits(m.Key)
	due = due && of+uint64(o.rules.GetChallengeWindow()) <= o.Epoch+1
	if o.completeAfter(o.Epoch + 1) {
		of, due = o.Epoch, true
	}
	open := func(a *audit) bool { return a.Miner == m.Number && a.Acked > 0 && a.Epoch >= of }
	if !due || m.LogFull || m.Barred != "" || slices.ContainsFunc(o.Audits, open) {
		return
	}
	list := slices.DeleteFunc(message.Segments(log, o.keptStep()), func(s message.Segment) bool { return o.ackedIn(m, s, log) == 0 })
	if len(list) > 0 {
		o.openLog(m, list[o.dice.IntN(len(list))], log)
	}
}

// waitsSince is the first epoch whose pay waits for a proof that an audit could be, MaxUint64 if none does. Those who have
// waited for long are answered first: so a flood of new keys does not keep the others' pay back for ever. A shard proves
// nobody's pay and counts as if some had waited since its epoch, so that neither shards nor segments keep the others back.
func (o *Orchestrator) waitsSince(a *audit) uint64 {
	if a.Miner < 0 {
		return a.Epoch
	}
	if a.Acked > 0 {
		if of, waits := o.Books.Ledger.Waits(o.Miners[a.Miner].Key); waits && of <= a.Epoch {
			return of
		}
	}
	return math.MaxUint64
}

// auditsUntil is how long the run's end waits for open audits: for one on which pay depends, because it would be a proof
// or because an answer differs, at most as long as an epoch may take; for others, and for somebody to come back, as an
// install.
func (o *Orchestrator) auditsUntil() time.Duration {
	wait := time.Duration(0)
	for _, a := range o.Audits {
		pays := o.complete() && (len(a.Answers) > 0 || a.Acked > 0 && o.waitsSince(a) <= a.Epoch)
		switch ends := o.canEnd(a); {
		case ends && pays:
			wait = time.Duration(o.rules.GetEpochDeadline())
		case ends, pays && o.validated():
			wait = max(wait, time.Duration(o.rules.GetInstallDeadline()))
		}
	}
	return o.EpochStart + wait
}

// endBooks settles when a run has its full length: no epoch will close its window any more. What is proven is paid, the
// rest is burned, and with it the pay of whom an answer still speaks against. Where no validator is left nobody could be
// checked, and what is not proven stays in escrow. So does all in a run that was only stopped, since it may go on.
func (o *Orchestrator) endBooks() {
	if !o.complete() || o.Epoch == 0 {
		return
	}
	for _, a := range slices.Clone(o.Audits) { // the run waited for them, in vain
		for i, p := range a.Parties {
			if a.against(i) {
				o.Books.Ledger.Void(o.Miners[p.Miner].Key, 0, math.MaxUint64, "a replay of "+a.name()+" differs, and nobody gave a second opinion")
			}
		}
		o.giveUpAudit(a)
	}
	for _, m := range o.Miners {
		if of, waits := o.Books.Ledger.Waits(m.Key); waits && o.validated() {
			o.Books.Ledger.Void(m.Key, of, math.MaxUint64, "the run ended before a replay of this work, or of later work, had passed")
		}
	}
	o.out = append(o.out, &message.Outbound{Ledger: o.Books.Ledger.Settle(manifest.Pay(o.manifest), o.Epoch)})
}
