package orchestrator

import (
	"bytes"
	"slices"

	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// books are the ledger and what waits for its next page. docs/economics.md says why the rules are as they are.
type books struct {
	Ledger  ledger.Ledger
	Replays []ledger.Work // of validators, by key, since the last page
	Late    []ledger.Work // unmerged work that replays found good, by key, since the last page
	Absent  []unproven    // work that cannot be replayed, of the epoch whose page is still to come
}

// unproven is work that nobody can replay.
type unproven struct {
	Key   []byte
	Epoch uint64
}

// stageUnits is what a micro-batch counts in each stage: its share of the cost, all of them together ledger.Whole.
func (o *Orchestrator) stageUnits() []uint64 {
	costs := make([]uint64, len(o.Stages))
	for s := range costs {
		costs[s] = uint64(o.shape.Cost(s))
	}
	units, err := ledger.Split(ledger.Whole, costs)
	if err != nil {
		panic("orchestrator: the costs of the stages do not sum up") // a valid shape's do
	}
	return units
}

// emit books the epoch that was just installed, before its cohorts are forgotten. A miner's score is its merged
// micro-batches times what its stage counts, and the budget is so much per merged token. So a micro-batch of a stage
// brings the same in every epoch, whatever the others do and however long the epoch was.
func (o *Orchestrator) emit() {
	o.closeWindow()
	units, work := o.stageUnits(), o.Books.Late
	for _, s := range o.Stages {
		for _, me := range s.Cohort {
			if s.CheckpointOf == o.Epoch && me.merged() {
				work = append(work, ledger.Work{
					Number: me.Miner, Key: o.Miners[me.Miner].Key, Batches: me.B, Units: me.B * units[s.Index],
				})
			}
		}
	}
	epoch := o.Epoch - 1
	page, err := o.Books.Ledger.Close(manifest.Pay(o.manifest), epoch, work, o.Books.Replays)
	o.Books.Replays, o.Books.Late = nil, nil
	if err != nil {
		o.alert("epoch %d pays nothing: %v", epoch, err)
		return
	}
	o.out = append(o.out, &message.Outbound{Ledger: page})
	for _, u := range o.Books.Absent {
		o.Books.Ledger.Void(u.Key, u.Epoch, u.Epoch, unprovenNote)
	}
	o.Books.Absent = nil
}

const unprovenNote = "an audit was drawn, and the miner no longer had what it needs"

// unproven has an epoch's pay of a miner burned, because work that was drawn cannot be replayed: the miner lost or kept
// back its log or its state. It is nobody's fault, but work that is not verified is not paid.
func (o *Orchestrator) unproven(m *miner, epoch uint64) {
	if epoch >= o.Epoch {
		known := func(u unproven) bool { return u.Epoch == epoch && bytes.Equal(u.Key, m.Key) }
		if slices.ContainsFunc(o.Books.Absent, known) {
			return
		}
		o.Books.Absent = append(o.Books.Absent, unproven{m.Key, epoch})
		return
	}
	o.Books.Ledger.Void(m.Key, epoch, epoch, unprovenNote)
}

// burn is what a failed verdict costs a participant, or a wrong replay a validator: everything in escrow, and what it does
// from now on under this key. A verdict is a sample and says little of the epochs before its own. It may be called at any
// time and more than once. Whether the participant may stay is another question.
func (o *Orchestrator) burn(key []byte, reason string) {
	if amount := o.Books.Ledger.Slash(key, plain(reason)); amount > 0 {
		o.alert("%s loses %.6f: %s", message.Short(key), float64(amount)/ledger.Unit, reason)
	}
}

// creditReplay counts a validator's replay, when its verdict is known: the units of the work that was replayed. With the
// next page the validators share their part in proportion. A new one has the probation of a
// miner, in micro-batches of the mean stage.
func (o *Orchestrator) creditReplay(key []byte, units uint64) {
	batches := (units*uint64(len(o.Stages)) + ledger.Whole - 1) / ledger.Whole
	o.Books.Replays = credit(o.Books.Replays, ledger.Work{Key: key, Batches: batches, Units: units})
}

// unmergedIn counts the micro-batches of a segment that were acknowledged and are no part of what the epoch's install took
// in, so that a verdict pays each once.
func (o *Orchestrator) unmergedIn(m *miner, s message.Segment, log []*message.Receipt) uint64 {
	st, me := o.memberOf(m)
	if st == nil || me != nil && me.merged() && st.CheckpointOf == o.Epoch+1 || !m.sumsAcked(log) {
		return 0
	}
	return o.ackedIn(m, s, log)
}

// creditUnmerged has work paid that was acknowledged but not merged, because its miner died, was late or did too little:
// so many micro-batches of a stage, at the price of merged ones. Nothing else pays for it, so it is called only for what
// a replay found good, and once for each micro-batch. What is found good after the last page of a run is not paid.
func (o *Orchestrator) creditUnmerged(m *miner, stage int, batches uint64) {
	o.Books.Late = credit(o.Books.Late, ledger.Work{
		Number: m.Number, Key: m.Key, Batches: batches, Units: o.unitsOf(stage, batches),
	})
}

// unitsOf is the score of so many micro-batches of a stage.
func (o *Orchestrator) unitsOf(stage int, batches uint64) uint64 {
	return batches * o.stageUnits()[stage]
}

// credit adds work to its key's.
func credit(list []ledger.Work, w ledger.Work) []ledger.Work {
	for i := range list {
		if bytes.Equal(list[i].Key, w.Key) {
			list[i].Batches += w.Batches
			list[i].Units += w.Units
			return list
		}
	}
	w.Key = bytes.Clone(w.Key)
	return append(list, w)
}

// PayView is what the ledger says of one participant. Amounts are micro-units.
type PayView struct {
	Score     float64 // emitted for: micro-batches of the whole model
	Earned    uint64  // paid, out of everybody's reach
	Escrow    uint64  // earned, but can still be lost
	Slashed   uint64  // burned because of a failed verdict
	Unproven  uint64  // burned because it could not be replayed
	Probation uint64  // burned because the key was new
	Left      uint64  // micro-batches of its probation that are left
}

// ValidatorPay is a participant whose replays were credited.
type ValidatorPay struct {
	ID  string
	Key []byte
	Pay PayView
}

// LedgerView is the state of the ledger. Amounts are micro-units: Issued = Paid + Escrow + Burned.
type LedgerView struct {
	Entries, Pages               uint64
	Root                         []byte
	Issued, Paid, Escrow, Burned uint64
	Validators                   []ValidatorPay
}

func (o *Orchestrator) payView(key []byte) PayView {
	h := o.Books.Ledger.Find(key)
	v := PayView{
		Score: float64(h.Score) / ledger.Whole, Earned: h.Paid, Escrow: h.Escrow, Slashed: h.Slashed, Unproven: h.Unproven, Probation: h.Probation,
	}
	if t := uint64(o.rules.GetProbation()); h.Batches < t {
		v.Left = t - h.Batches
	}
	return v
}

func (o *Orchestrator) ledgerView() LedgerView {
	l := &o.Books.Ledger
	v := LedgerView{
		Entries: l.Entries, Pages: l.Closings, Root: bytes.Clone(l.Root),
		Issued: l.Issued, Paid: l.Paid, Escrow: l.Escrow, Burned: l.Burned,
	}
	for _, h := range l.Holders {
		if h.Validator {
			v.Validators = append(v.Validators, ValidatorPay{message.Short(h.Key), bytes.Clone(h.Key), o.payView(h.Key)})
		}
	}
	return v
}
