package ledger

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Account is one side of an entry. Escrow and Paid are kept per key, the others once.
type Account string

// The accounts. What was issued is the sum of the others.
const (
	Issue  Account = "issue"
	Escrow Account = "escrow"
	Paid   Account = "paid"
	Burn   Account = "burn"
)

// Kind is what an entry is for. It decides the accounts.
type Kind string

// The kinds of entries.
const (
	Emission   Kind = "emission"   // a miner's merged work
	Probation  Kind = "probation"  // work of a key that is new: burned
	Forfeit    Kind = "forfeit"    // work of a key that failed a verdict: burned
	Validation Kind = "validation" // a validator's replays
	Voided     Kind = "voided"     // replays of a validator that is new or failed: burned
	Unclaimed  Kind = "unclaimed"  // the validators' part, when nobody replayed: burned
	Proof      Kind = "proof"      // a replay of an epoch's work passed: always of 0
	Release    Kind = "release"    // the challenge window closed, and where the run asks for it there is a proof
	Slash      Kind = "slash"      // a verdict failed; of 0 where there was nothing to burn
	Unproven   Kind = "unproven"   // an audit was drawn that the miner could not let happen, or there was no proof at the end
)

// transfers are the accounts of each kind.
var transfers = map[Kind][2]Account{
	Emission: {Issue, Escrow}, Validation: {Issue, Escrow},
	Probation: {Issue, Burn}, Forfeit: {Issue, Burn}, Voided: {Issue, Burn}, Unclaimed: {Issue, Burn},
	Proof: {Escrow, Paid}, Release: {Escrow, Paid}, Slash: {Escrow, Burn}, Unproven: {Escrow, Burn},
}

// Entry is one transfer. Its JSON form is a line of the stored ledger.
type Entry struct {
	Number  uint64  `json:"entry"` // from 1, without gaps
	Kind    Kind    `json:"kind"`
	From    Account `json:"from"`
	To      Account `json:"to"`
	Key     Key     `json:"key,omitempty"` // whose work, pay or loss it is
	Of      uint64  `json:"of"`            // the epoch of the work
	Batches uint64  `json:"batches,omitempty"`
	Work    uint64  `json:"work,omitempty"` // units
	Amount  uint64  `json:"amount"`         // micro-units
	Note    string  `json:"note,omitempty"` // why, of what is burned from escrow
}

// Key is a participant's ed25519 public key, in hexadecimal digits where it is text.
type Key []byte

// MarshalText returns the digits.
func (k Key) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k), nil }

// UnmarshalText reads them.
func (k *Key) UnmarshalText(b []byte) (err error) {
	*k, err = hex.DecodeString(string(b))
	return err
}

// book numbers an entry, applies it and keeps it for the next page.
func (l *Ledger) book(e Entry) error {
	t := transfers[e.Kind]
	e.Number, e.From, e.To, e.Key = l.Entries+1, t[0], t[1], bytes.Clone(e.Key)
	if err := l.apply(e); err != nil {
		return err
	}
	l.Open = append(l.Open, e)
	return nil
}

// must books what moves a lot out of escrow. The books always allow that: the lot is there.
func (l *Ledger) must(e Entry) {
	if err := l.book(e); err != nil {
		panic(fmt.Sprintf("ledger: %s: %v", e.Kind, err))
	}
}

// apply moves an entry's amount. It returns an error, and changes nothing, where the books do not allow that.
func (l *Ledger) apply(e Entry) error {
	t, known := transfers[e.Kind]
	if !known || e.From != t[0] || e.To != t[1] || (len(e.Key) == 0) != (e.Kind == Unclaimed) {
		return errors.New("an entry of unknown kind, or without what its kind needs")
	}
	var err error
	switch {
	case e.From == Issue:
		err = l.issue(e)
	case e.Kind == Proof:
		err = l.prove(e)
	default:
		err = l.withdraw(e)
	}
	if err == nil {
		l.Entries++
	}
	return err
}

// issue applies an entry that creates units.
func (l *Ledger) issue(e Entry) error {
	h := l.Find(e.Key)
	score, over := bits.Add64(h.Score, e.Work, 0)
	batches, more := bits.Add64(h.Batches, e.Batches, 0)
	if over|more != 0 || l.Issued > math.MaxInt64 || e.Amount > math.MaxInt64-l.Issued {
		return ErrOverflow
	}
	if e.Kind != Voided && (e.Kind == Forfeit) != h.Failed {
		return errors.New("work is forfeit exactly when its key failed a verdict")
	}
	l.Issued += e.Amount
	if e.To == Burn {
		l.Burned += e.Amount
	}
	if e.Kind == Unclaimed {
		return nil
	}
	i := l.holder(e.Key)
	h.Key, h.Batches, h.Validator = l.Holders[i].Key, batches, h.Validator || e.Kind == Validation || e.Kind == Voided
	switch {
	case e.To == Burn && h.Failed:
		h.Slashed += e.Amount
	case e.To == Burn:
		h.Probation += e.Amount
	default:
		h.Score, h.Escrow, l.Escrow = score, h.Escrow+e.Amount, l.Escrow+e.Amount
		l.deposit(Lot{i, e.Of, e.Amount})
	}
	l.Holders[i] = h
	return nil
}

// deposit adds to a key's escrow of an epoch.
func (l *Ledger) deposit(lot Lot) {
	for i := len(l.Lots) - 1; i >= 0; i-- {
		if o := &l.Lots[i]; o.Holder == lot.Holder && o.Of == lot.Of {
			o.Amount += lot.Amount
			return
		}
	}
	l.Lots = append(l.Lots, lot)
}

// prove applies a proof, which moves nothing.
func (l *Ledger) prove(e Entry) error {
	if e.Amount != 0 || e.Of == math.MaxUint64 || l.Find(e.Key).Proof > e.Of {
		return errors.New("a proof is of no amount, and of a later epoch than the key's last one")
	}
	l.Holders[l.holder(e.Key)].Proof = e.Of + 1
	return nil
}

// withdraw applies an entry that takes a whole lot out of escrow.
func (l *Ledger) withdraw(e Entry) error {
	i := l.find(e.Key)
	k := slices.IndexFunc(l.Lots, func(o Lot) bool { return o.Holder == i && o.Of == e.Of })
	switch {
	case k >= 0 && l.Lots[k].Amount == e.Amount:
		l.Lots = slices.Delete(l.Lots, k, k+1)
	case e.Kind != Slash || e.Amount != 0 || k >= 0:
		return fmt.Errorf("the escrow of epoch %d is another amount", e.Of)
	}
	h := &l.Holders[l.holder(e.Key)]
	h.Escrow, l.Escrow = h.Escrow-e.Amount, l.Escrow-e.Amount
	if e.Kind == Release {
		h.Paid, l.Paid = h.Paid+e.Amount, l.Paid+e.Amount
		return nil
	}
	l.Burned += e.Amount
	if e.Kind == Unproven {
		h.Unproven += e.Amount
		return nil
	}
	h.Slashed += e.Amount
	h.Failed = true
	return nil
}

// release pays the escrow of epochs up to the given one, as far as it is proven where the rules ask for it.
func (l *Ledger) release(r Rules, last uint64) {
	for _, lot := range slices.Clone(l.Lots) {
		if h := &l.Holders[lot.Holder]; lot.Of <= last && (!r.Proofs || h.proven(lot.Of)) {
			l.must(Entry{Kind: Release, Key: h.Key, Of: lot.Of, Amount: lot.Amount})
		}
	}
}

// find returns a key's place among the holders, or -1.
func (l *Ledger) find(key []byte) int {
	return slices.IndexFunc(l.Holders, func(h Holder) bool { return bytes.Equal(h.Key, key) })
}

// holder returns a key's place among the holders, a new one if need be.
func (l *Ledger) holder(key []byte) int {
	i := l.find(key)
	if i < 0 {
		i = len(l.Holders)
		l.Holders = append(l.Holders, Holder{Key: bytes.Clone(key)})
	}
	return i
}

// clone returns books that share no memory with l.
func (l *Ledger) clone() Ledger {
	c := *l
	c.Holders, c.Lots, c.Open = slices.Clone(l.Holders), slices.Clone(l.Lots), slices.Clone(l.Open)
	return c
}
