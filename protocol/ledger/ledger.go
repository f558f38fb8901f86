// Package ledger keeps the books of a run: who did what verified work, and what it earns. Pure functions over one small
// value; docs/economics.md derives the rules.
//
// Amounts are whole micro-units, a millionth of a unit of pay. Every entry is a transfer between two accounts, so all
// accounts sum to zero at every moment: what was issued lies in escrow, was paid or was burned. An epoch is closed by one
// page of entries, and each line of a page carries the BLAKE3 link of the chain up to it (page.go); the link of a page's
// last line is the root that the orchestrator signs. The state of a Ledger is a fold over its entries: Reader
// (verify.go) computes it anew from a stored file, which proves the file.
package ledger

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

// Unit is the number of micro-units in one unit of pay.
const Unit = 1_000_000

// Whole is the work of one micro-batch in all stages of the model together. A stage counts its share of the cost.
const Whole = 1_000_000

// Rules are what a manifest says about pay.
type Rules struct {
	PerBatch   uint64 // micro-units issued for a micro-batch that was merged in every stage
	Validators uint64 // millionths of an epoch's budget that validators share
	Window     uint64 // epochs after its own for which pay stays in escrow
	Proofs     bool   // and a miner's until a replay of that epoch's work, or of later work, has passed
	Probation  uint64 // micro-batches that a new key does before it earns
}

// Work is what one key did: a miner's merged micro-batches, or a validator's replays.
type Work struct {
	Number  int // of the miner, from 0: breaks ties
	Key     []byte
	Batches uint64 // they count towards the probation
	Units   uint64 // of work: Whole for a micro-batch in all stages
}

// Ledger is the books of a run after some entry. Its size is bounded by the keys that ever worked, and by what they have
// in escrow; closed epochs leave only the root. The zero value is not usable.
type Ledger struct {
	Root     []byte // link of the last page's last line, 32 bytes
	Entries  uint64 // booked so far
	Closings uint64 // pages so far
	Issued   uint64 // = Burned + Paid + Escrow, at most math.MaxInt64
	Burned   uint64
	Paid     uint64
	Escrow   uint64
	Holders  []Holder // in order of their first entry
	Lots     []Lot    // what lies in escrow, in the order in which it came
	Open     []Entry  // booked since the last page
}

// Holder is what the books say of one key. Amounts are micro-units.
type Holder struct {
	Key       []byte
	Score     uint64 // work that was emitted for
	Batches   uint64 // micro-batches, those of the probation included
	Proof     uint64 // the epoch after the last one of which a replay passed, 0 if none did
	Paid      uint64
	Escrow    uint64
	Slashed   uint64 // burned because of a failed verdict, escrow and later work
	Probation uint64 // burned because the key was new
	Unproven  uint64 // burned because it could not be replayed, or was not in time
	Validator bool   // replays were credited to it
	Failed    bool   // a verdict failed: it earns nothing any more
}

// Lot is one key's pay for one epoch, in escrow.
type Lot struct {
	Holder int
	Of     uint64 // the epoch
	Amount uint64
}

// New returns empty books. The manifest's hash begins the chain, so no page fits into another run.
func New(manifest []byte) Ledger { return Ledger{Root: start(manifest)} }

// Close books an epoch and returns its page. The budget is PerBatch for every micro-batch's worth of work, rounded down;
// it is issued completely: in proportion to work into escrow, and to burn for what was done in probation or by a key
// that failed, and for the validators' part when nobody replayed anything. Then whatever has been in escrow for the
// whole window is paid, a miner's only if it is proven. Neither the order of the lists nor how often a key stands in them
// matters. Work that exceeds what the ledger can hold is refused and changes nothing.
func (l *Ledger) Close(r Rules, epoch uint64, work, replays []Work) ([]byte, error) {
	budget, entries, err := l.emission(r, epoch, work, replays)
	if err != nil {
		return nil, err
	}
	next := l.clone()
	for _, e := range entries {
		if err := next.book(e); err != nil {
			return nil, err
		}
	}
	*l = next
	if epoch >= r.Window {
		l.release(r, epoch-r.Window)
	}
	return l.page(r, epoch, budget), nil
}

// Settle pays what is in escrow without waiting for windows: the run has ended and nothing can be challenged any more. What
// would need a proof stays.
func (l *Ledger) Settle(r Rules, epoch uint64) []byte {
	l.release(r, math.MaxUint64)
	return l.page(r, epoch, 0)
}

// Prove notes that a replay of a key's work of an epoch passed: its pay for that epoch and earlier ones leaves escrow when
// the window closes. What is proven stays so.
func (l *Ledger) Prove(key []byte, of uint64) {
	if l.Find(key).Proof <= of {
		l.must(Entry{Kind: Proof, Key: key, Of: of})
	}
}

// Waits returns the first epoch whose pay a key has in escrow without a proof, and false if there is none.
func (l *Ledger) Waits(key []byte) (of uint64, waits bool) {
	h := l.find(key)
	for _, lot := range l.Lots {
		if lot.Holder == h && !l.Holders[h].proven(lot.Of) && (!waits || lot.Of < of) {
			of, waits = lot.Of, true
		}
	}
	return of, waits
}

// proven reports whether no proof is wanting for pay of an epoch. What a validator replays is checked in another way.
func (h *Holder) proven(of uint64) bool { return h.Validator || h.Proof > of }

// Slash burns all that a key has in escrow, and marks it: what it does from now on is forfeit too. It returns the amount.
// The note goes into the books, also when there was nothing to burn.
func (l *Ledger) Slash(key []byte, note string) uint64 {
	h, burned := l.find(key), uint64(0)
	for _, lot := range slices.Clone(l.Lots) {
		if lot.Holder == h {
			l.must(Entry{Kind: Slash, Key: key, Of: lot.Of, Amount: lot.Amount, Note: note})
			burned += lot.Amount
		}
	}
	if !l.Find(key).Failed {
		l.must(Entry{Kind: Slash, Key: key, Note: note})
	}
	return burned
}

// Void burns what a key has in escrow for the epochs from first to last, because nobody can tell whether that work was
// done. Unlike Slash it says nothing against the key.
func (l *Ledger) Void(key []byte, first, last uint64, note string) {
	h := l.find(key)
	for _, lot := range slices.Clone(l.Lots) {
		if lot.Holder == h && first <= lot.Of && lot.Of <= last {
			l.must(Entry{Kind: Unproven, Key: key, Of: lot.Of, Amount: lot.Amount, Note: note})
		}
	}
}

// Find returns what the books say of a key.
func (l *Ledger) Find(key []byte) Holder {
	if i := l.find(key); i >= 0 {
		return l.Holders[i]
	}
	return Holder{Key: key}
}

// emission returns an epoch's budget and the entries that issue it, without booking them.
func (l *Ledger) emission(r Rules, epoch uint64, work, replays []Work) (uint64, []Entry, error) {
	units, err := unitsOf(work)
	if err != nil {
		return 0, nil, err
	}
	budget, fits := share(r.PerBatch, units, Whole)
	if !fits || budget > math.MaxInt64-l.Issued {
		return 0, nil, ErrOverflow
	}
	part, fits := share(budget, r.Validators, 1_000_000)
	if !fits || part > budget || budget == 0 {
		part = 0
	}
	mine, err := divide(budget-part, epoch, l.claims(r, gather(work), miner))
	if err != nil {
		return 0, nil, err
	}
	theirs, err := l.validation(r, part, epoch, replays)
	return budget, append(mine, theirs...), err
}

// validation divides the validators' part by what each replayed. Without replays it is burned: that nobody checks must
// not pay those who are not checked.
func (l *Ledger) validation(r Rules, part, epoch uint64, replays []Work) ([]Entry, error) {
	units, err := unitsOf(replays)
	switch {
	case err != nil:
		return nil, err
	case part > 0 && units == 0:
		return []Entry{{Kind: Unclaimed, Of: epoch, Amount: part}}, nil
	}
	return divide(part, epoch, l.claims(r, gather(replays), validator))
}

// role is which kinds of entries work becomes: once it earns, while its key is new, and after a failed verdict.
type role struct{ earns, new, failed Kind }

var (
	miner     = role{Emission, Probation, Forfeit}
	validator = role{Validation, Voided, Voided}
)

// claims are the entries that an epoch's work asks for, without amounts: two for a key whose probation ends within.
func (l *Ledger) claims(r Rules, work []Work, kinds role) []Entry {
	var list []Entry
	for _, w := range work {
		h := l.Find(w.Key)
		if h.Failed {
			list = append(list, Entry{Kind: kinds.failed, Key: w.Key, Work: w.Units, Batches: w.Batches})
			continue
		}
		free, units := uint64(0), uint64(0) // of the work that is done in probation
		if h.Batches < r.Probation {
			free = min(w.Batches, r.Probation-h.Batches)
			units = w.Units
			if free < w.Batches {
				units, _ = share(w.Units, free, w.Batches) // fits: free < w.Batches
			}
			list = append(list, Entry{Kind: kinds.new, Key: w.Key, Work: units, Batches: free})
		}
		if free < w.Batches || units < w.Units {
			list = append(list, Entry{Kind: kinds.earns, Key: w.Key, Work: w.Units - units, Batches: w.Batches - free})
		}
	}
	return list
}

// divide gives the entries their amounts of a budget.
func divide(budget, epoch uint64, list []Entry) ([]Entry, error) {
	weights := make([]uint64, len(list))
	for i := range list {
		weights[i] = list[i].Work
	}
	amounts, err := Split(budget, weights)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Of, list[i].Amount = epoch, amounts[i]
	}
	return list, nil
}

// gather adds up what each key did, and orders it by number, then key. Sums were checked to fit.
func gather(work []Work) []Work {
	var list []Work
	for _, w := range work {
		if w.Batches == 0 && w.Units == 0 {
			continue
		}
		i := slices.IndexFunc(list, func(o Work) bool { return bytes.Equal(o.Key, w.Key) })
		if i < 0 {
			list = append(list, w)
			continue
		}
		list[i].Number = min(list[i].Number, w.Number)
		list[i].Batches += w.Batches
		list[i].Units += w.Units
	}
	slices.SortFunc(list, func(a, b Work) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), bytes.Compare(a.Key, b.Key))
	})
	return list
}

// unitsOf is the sum of all units, where it and that of the micro-batches fit.
func unitsOf(work []Work) (uint64, error) {
	units, batches := make([]uint64, len(work)), make([]uint64, len(work))
	for i, w := range work {
		units[i], batches[i] = w.Units, w.Batches
	}
	total, fits := sum(units)
	if _, few := sum(batches); !fits || !few {
		return 0, ErrOverflow
	}
	return total, nil
}
