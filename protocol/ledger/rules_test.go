package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/iota-train/iota/protocol/ledger"
)

// books of a run with 1000 micro-units per micro-batch, two epochs of window and a probation of 10.
type books struct {
	*testing.T
	ledger.Ledger
	rules ledger.Rules
	epoch uint64
}

func newBooks(t *testing.T) *books {
	return &books{t, ledger.New(nil), ledger.Rules{PerBatch: 1000, Window: 2, Probation: 10}, 0}
}

// close books an epoch in which miner i did batches[i] micro-batches of the whole model.
func (b *books) close(batches ...uint64) {
	b.Helper()
	var work []ledger.Work
	for i, n := range batches {
		work = append(work, ledger.Work{Number: i, Key: keyOf(i), Batches: n, Units: n * ledger.Whole})
	}
	if _, err := b.Close(b.rules, b.epoch, work, nil); err != nil {
		b.Fatal(err)
	}
	b.epoch++
}

// want checks what a miner has: paid, in escrow, slashed, burned in probation.
func (b *books) want(i int, paid, escrow, slashed, probation uint64) {
	b.Helper()
	h := b.Find(keyOf(i))
	if got, want := fmt.Sprint(h.Paid, h.Escrow, h.Slashed, h.Probation), fmt.Sprint(paid, escrow, slashed, probation); got != want {
		b.Errorf("miner %d has %s, want %s (paid, escrow, slashed, probation)", i, got, want)
	}
}

func TestANewKeyEarnsNothingBeforeItsProbationIsOver(t *testing.T) {
	b := newBooks(t)
	b.close(4)
	b.want(0, 0, 0, 0, 4000)
	b.close(9) // six of them end the probation
	b.want(0, 0, 3000, 0, 10_000)
	b.close(5)
	b.want(0, 0, 8000, 0, 10_000)
}

func TestPayWaitsInEscrowForTheWholeWindow(t *testing.T) {
	b := newBooks(t)
	b.close(15)
	b.want(0, 0, 5000, 0, 10_000)
	b.close(1)
	b.want(0, 0, 6000, 0, 10_000)
	b.close(1)
	b.want(0, 5000, 2000, 0, 10_000)
	b.close()
	b.want(0, 6000, 1000, 0, 10_000)
	b.Settle(b.rules, b.epoch)
	b.want(0, 7000, 0, 0, 10_000)
}

func TestPayWaitsForAProofOfItsEpochOrALaterOne(t *testing.T) {
	b := newBooks(t)
	b.rules.Proofs = true
	b.close(12, 12, 12) // epoch 0
	b.close(1, 1, 1)
	b.close(1, 1, 1)
	for i := range 3 {
		b.want(i, 0, 4000, 0, 10_000) // the window of epoch 0 is over
	}
	b.Prove(keyOf(0), 1) // and so of epoch 0, but not of 2
	b.Prove(keyOf(1), 0)
	b.close()
	b.want(0, 3000, 1000, 0, 10_000)
	b.want(1, 2000, 2000, 0, 10_000)
	b.want(2, 0, 4000, 0, 10_000)
	b.close()
	b.want(0, 3000, 1000, 0, 10_000) // the proof came first, the window has closed: it is of an earlier epoch
	if of, waits := b.Waits(keyOf(1)); of != 1 || !waits {
		t.Errorf("miner 1 waits for a proof of epoch %d: %v", of, waits)
	}
	b.Prove(keyOf(1), 2)
	b.Void(keyOf(0), 2, 2, "the run ended")
	b.Settle(b.rules, b.epoch)
	b.want(0, 3000, 0, 0, 10_000)
	b.want(1, 4000, 0, 0, 10_000)
	b.want(2, 0, 4000, 0, 10_000)
	if u := b.Find(keyOf(0)).Unproven; u != 1000 {
		t.Errorf("%d burned as unproven", u)
	}
}

func TestAValidatorNeedsNoProof(t *testing.T) {
	b := newBooks(t)
	b.rules.Validators, b.rules.Probation, b.rules.Window, b.rules.Proofs = 100_000, 0, 0, true
	work, replays := []ledger.Work{{Key: keyOf(0), Batches: 10, Units: 10 * ledger.Whole}}, []ledger.Work{{Key: keyOf(7), Units: 1}}
	if _, err := b.Close(b.rules, 0, work, replays); err != nil {
		t.Fatal(err)
	}
	b.want(0, 0, 9000, 0, 0)
	b.want(7, 1000, 0, 0, 0)
}

func TestAReleaseThatLacksItsProofIsFoundInTheFile(t *testing.T) {
	rules := ledger.Rules{PerBatch: 1000, Window: 1, Proofs: true}
	lax := rules
	lax.Proofs = false
	for _, c := range []struct {
		claim string
		rules [3]ledger.Rules
		prove bool
		err   string
	}{
		{"proven", [3]ledger.Rules{rules, rules, rules}, true, ""},
		{"no rule, no proof", [3]ledger.Rules{lax, lax, lax}, false, ""},
		{"a page without the rule", [3]ledger.Rules{rules, lax, lax}, false, "does not say the same"},
		{"a page that claims the rule", [3]ledger.Rules{lax, rules, rules}, false, "does not say the same"},
		{"released all the same", [3]ledger.Rules{rules, rules, rules}, false, "pays what no replay has proven"},
	} {
		l, reader, all := ledger.New(nil), ledger.Reader{}, error(nil)
		for epoch, r := range c.rules {
			if c.prove && epoch > 0 {
				l.Prove(keyOf(0), uint64(epoch-1))
			}
			if !c.prove { // the writer forges its books
				l.Holders = slices.Clone(l.Holders)
				for i := range l.Holders {
					l.Holders[i].Proof = 9
				}
			}
			page, err := l.Close(r, uint64(epoch), []ledger.Work{{Key: keyOf(0), Batches: 1, Units: ledger.Whole}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := reader.Page(nil, page); all == nil {
				all = err
			}
		}
		if (all == nil) != (c.err == "") || all != nil && !strings.Contains(all.Error(), c.err) {
			t.Errorf("%s: %v", c.claim, all)
		}
	}
}

func TestAFailedVerdictBurnsAllOfTheEscrow(t *testing.T) {
	b := newBooks(t)
	b.close(11, 11) // epoch 0
	b.close(2, 2)   // epoch 1: miner 1 begins to cheat
	if burned := b.Slash(keyOf(1), "its replay differs"); burned != 3000 {
		t.Errorf("%d burned", burned)
	}
	b.want(1, 0, 0, 3000, 10_000)
	b.close(3, 3) // what it does from now on is forfeit
	b.want(0, 1000, 5000, 0, 10_000)
	b.want(1, 0, 0, 6000, 10_000)
}

func TestAVerdictAboutTheRunningEpochForfeitsItsWork(t *testing.T) {
	b := newBooks(t)
	b.close(10, 10)
	if burned := b.Slash(keyOf(1), "its replay differs"); burned != 0 {
		t.Errorf("%d burned", burned)
	}
	b.close(3, 3)
	b.want(0, 0, 3000, 0, 10_000)
	b.want(1, 0, 0, 3000, 10_000)
}

func TestOtherMinersNeitherLoseNorGainByAFailedVerdictOrAProbation(t *testing.T) {
	honest, liar := newBooks(t), newBooks(t)
	honest.close(10, 10)
	liar.close(10, 10)
	liar.Slash(keyOf(1), "its replay differs")
	honest.close(5, 5, 0)
	liar.close(5, 5, 5) // and a newcomer
	honest.want(0, 0, 5000, 0, 10_000)
	liar.want(0, 0, 5000, 0, 10_000)
}

func TestFiftyKeysCostFiftyProbations(t *testing.T) {
	b := newBooks(t)
	one := make([]uint64, 50)
	for i := range one {
		one[i] = 10
	}
	b.close(one...)
	if b.Burned != 50*10*1000 || b.Escrow != 0 {
		t.Errorf("burned %d, escrow %d", b.Burned, b.Escrow)
	}
}

func TestANewValidatorEarnsNothingBeforeItsProbationIsOver(t *testing.T) {
	b := newBooks(t)
	b.rules.Validators = 100_000
	work := []ledger.Work{{Key: keyOf(0), Batches: 10, Units: 10 * ledger.Whole}}
	for _, batches := range []uint64{4, 12} { // of the twelve, six end the probation
		replays := []ledger.Work{{Key: keyOf(7), Batches: batches, Units: batches}}
		if _, err := b.Close(b.rules, b.epoch, work, replays); err != nil {
			b.Fatal(err)
		}
		b.epoch++
	}
	b.want(7, 0, 500, 0, 1500)
}

func TestValidatorsShareTheirPartByWhatTheyReplayed(t *testing.T) {
	b := newBooks(t)
	b.rules.Validators, b.rules.Probation, b.rules.Window = 100_000, 0, 0
	work := []ledger.Work{{Key: keyOf(0), Batches: 10, Units: 10 * ledger.Whole}}
	close := func(replays ...ledger.Work) {
		t.Helper()
		if _, err := b.Close(b.rules, b.epoch, work, replays); err != nil {
			t.Fatal(err)
		}
		b.epoch++
	}
	close(ledger.Work{Key: keyOf(7), Units: 1}, ledger.Work{Key: keyOf(8), Units: 3})
	b.want(0, 9000, 0, 0, 0)
	b.want(7, 250, 0, 0, 0)
	b.want(8, 750, 0, 0, 0)

	// Nobody gains when nobody checks: the part is burned.
	close()
	b.want(0, 18_000, 0, 0, 0)
	if b.Burned != 1000 {
		t.Errorf("burned %d", b.Burned)
	}

	// A validator that failed has its part burned; the others do not get it.
	b.Slash(keyOf(8), "it answered without computing")
	close(ledger.Work{Key: keyOf(7), Units: 1}, ledger.Work{Key: keyOf(8), Units: 3})
	b.want(7, 500, 0, 0, 0)
	b.want(8, 750, 0, 750, 0)
}
