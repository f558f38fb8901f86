package orchestrator

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/protocol/message"
)

// How a verdict comes about. A judge (a validator, or for a second opinion an uninvolved miner) is told what was to be
// done and returns what comes of it; the core compares with the receipts. One word convicts nobody:
//
//   - An answer that equals the receipts passes: judge and miner agree. A share of audits wants two answers.
//   - An answer that differs asks for another judge. What two judges agree on, to the last bit, is the truth: whoever's
//     receipts differ from it gets a failed verdict, and whoever's answer differs is no judge any more.
//   - While no two agree others are asked, after maxAnswers miners before validators: a miner's key has cost work. If
//     nobody is left, or mostAnswers differ, the audit ends undecided: the work is not verified, and nobody is charged.
//
// So a single validator, lying or broken, costs an honest miner nothing. Two that agree on one lie are believed.

// judge is who replays an audit.
type judge struct {
	Validator bool
	Number    int
}

func (v *validator) judge() judge { return judge{true, v.Number} }

// answer is what a judge found, as one hash, and in what each party's receipts differ from it, "" if in nothing.
type answer struct {
	Judge   judge
	Digest  []byte
	Differs []string
	At      []int // the receipt in which they do
}

// Evidence is a failed verdict. The journal has the signed receipts; the blobs that its replay reads are kept.
type Evidence struct {
	Miner   int // from 1
	Key     []byte
	Epoch   uint64
	Stage   int
	Receipt []byte // hash of the receipt that does not hold, nil if the state was withheld
	What    string
}

// replayed takes in a judge's answer. One that could not do it, for instance because a blob is lost, is passed over.
func (o *Orchestrator) replayed(j judge, r *message.Receipt) {
	for _, a := range o.Audits {
		i := slices.IndexFunc(a.Leases, func(l replayLease) bool { return l.Judge == j && l.Attempt == r.GetAttempt() })
		if a.Number != r.GetTask().GetBatch() || r.GetTask().GetKind() != message.TaskKind_REPLAY || i < 0 {
			continue
		}
		a.Leases = slices.Delete(a.Leases, i, i+1)
		if r.GetFault() != message.Fault_FAULT_NONE {
			a.Declined = append(a.Declined, j)
			if len(a.Declined) >= maxAnswers && o.stuck(a) { // while there are others, a few that decline end nothing
				o.giveUpAudit(a)
			}
			return
		}
		a.Answers = append(a.Answers, a.compare(j, r))
		o.decide(a)
		return
	}
}

// compare makes an answer of what a judge found: its hash, and where each party's receipts differ from it.
func (a *audit) compare(j judge, r *message.Receipt) answer {
	var all bytes.Buffer
	for _, e := range r.GetReplayed() {
		all.Write(message.HashBytes(message.Encode(e)))
	}
	x := answer{Judge: j, Digest: message.HashBytes(all.Bytes())}
	for _, p := range a.Parties {
		what, at := "", 0
		for i, raw := range p.Receipts {
			want := a.Segment.Want(i, opened(raw))
			if a.Shard >= 0 {
				want.Attempt = 0 // each owner's order had its own
			}
			if i >= len(r.GetReplayed()) {
				what = "it cannot be true: " + r.GetNote()
			} else {
				what = message.Differs(r.GetReplayed()[i], want)
			}
			if what != "" {
				what, at = fmt.Sprintf("%s: %s", want.GetTask().Key(), what), i
				break
			}
		}
		if what == "" && len(r.GetReplayed()) != len(p.Receipts) {
			what = "more comes of it than the log has"
		}
		x.Differs, x.At = append(x.Differs, plain(what)), append(x.At, at)
	}
	return x
}

// decide ends an audit if its answers suffice, or asks for one more.
func (o *Orchestrator) decide(a *audit) {
	for i, x := range a.Answers {
		same := func(y answer) bool { return bytes.Equal(x.Digest, y.Digest) }
		confirmed := slices.ContainsFunc(a.Answers[i+1:], same)
		fits := !slices.ContainsFunc(x.Differs, func(what string) bool { return what != "" })
		if confirmed || a.Need == 1 && fits {
			o.conclude(a, x)
			return
		}
	}
	switch {
	case len(a.Answers) < a.Need:
	case len(a.Answers) >= mostAnswers, len(a.Answers) >= maxAnswers && o.stuck(a):
		o.alert("%s: %d judges gave as many different answers: nobody is believed", a.name(), len(a.Answers))
		o.giveUpAudit(a)
	default:
		a.Need = len(a.Answers) + 1
	}
}

func (a *audit) name() string {
	if a.Shard >= 0 {
		return fmt.Sprintf("audit %d of shard %d of stage %d, epoch %d", a.Number, a.Shard, a.Stage, a.Epoch)
	}
	return fmt.Sprintf("audit %d of miner %d, epoch %d", a.Number, a.Miner+1, a.Epoch)
}

// conclude gives the verdicts: on those whose work it was, and on those who judged.
func (o *Orchestrator) conclude(a *audit, truth answer) {
	o.endAudit(a)
	failed := slices.ContainsFunc(truth.Differs, func(what string) bool { return what != "" })
	for _, x := range a.Answers {
		right := bytes.Equal(x.Digest, truth.Digest)
		o.judged(x.Judge, a, right, failed)
	}
	for i, p := range a.Parties {
		m := o.Miners[p.Miner]
		switch {
		case truth.Differs[i] == "":
			m.Passed++
			m.Replayed += a.batches(o)
			o.proves(a, m)
			if a.Unmerged > 0 {
				o.creditUnmerged(m, a.Stage, a.Unmerged)
			}
			continue
		case m.Barred != "":
			continue // it has its verdict, and no part in the run
		}
		o.keepForever(a)
		o.convict(m, Evidence{Epoch: a.Epoch, Stage: a.Stage, Receipt: message.HashBytes(p.Receipts[truth.At[i]]), What: truth.Differs[i]})
	}
}

// judged credits a judge whose answer was confirmed, or withdraws it.
func (o *Orchestrator) judged(j judge, a *audit, right, mismatch bool) {
	if !j.Validator {
		if !right {
			o.refuted(o.Miners[j.Number], "gave a second opinion in an audit that others found wrong")
		}
		return
	}
	v := o.validatorOf(j)
	if !right {
		v.Wrong++
		o.barValidator(v, "others agree on another outcome of "+a.name()+": its replays are not to be trusted; check the machine's memory, then join with a new key")
		return
	}
	v.Replays++
	if mismatch {
		v.Mismatches++
	}
	o.credited(v, a.Units)
}

// convict is a failed verdict: evidence, the end of the miner's part in the run, and of its pay.
func (o *Orchestrator) convict(m *miner, e Evidence) {
	e.Miner, e.Key = m.Number+1, m.Key
	m.Failed++
	o.AuditTotals.Mismatches++
	o.Evidence = append(o.Evidence, e)
	o.alert("miner %d failed an audit of epoch %d: %s", e.Miner, e.Epoch, e.What)
	if m.Barred == "" {
		o.bar(m, "a replay of its work of epoch "+fmt.Sprint(e.Epoch)+" does not give what it stated: "+e.What)
	}
	o.burn(m.Key, e.What)
}

// leastUnits is what a replay counts at least: that of a shard has no micro-batches in it.
const leastUnits = 0.1

// credited has a validator paid for a confirmed answer, a planted one included: the units of work that it replayed.
func (o *Orchestrator) credited(v *validator, units float64) {
	v.Units += units
	o.creditReplay(v.Key, uint64(max(leastUnits, units)*ledger.Whole/float64(len(o.Stages))))
}
