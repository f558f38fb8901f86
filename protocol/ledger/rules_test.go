package ledger_test

import (
	"fmt"
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
	b.Settle(b.epoch)
	b.want(0, 7000, 0, 0, 10_000)
}

func TestAFailedVerdictBurnsEverythingSinceAndNothingBefore(t *testing.T) {
	b := newBooks(t)
	b.close(11, 11) // epoch 0
	b.close(2, 2)   // epoch 1: miner 1 begins to cheat
	if burned := b.Slash(keyOf(1), 1, "its replay differs"); burned != 2000 {
		t.Errorf("%d burned", burned)
	}
	b.want(1, 0, 1000, 2000, 10_000)
	b.close(3, 3) // what it does from now on is forfeit
	b.want(0, 1000, 5000, 0, 10_000)
	b.want(1, 1000, 0, 5000, 10_000)
}

func TestAVerdictAboutTheRunningEpochForfeitsItsWork(t *testing.T) {
	b := newBooks(t)
	b.close(10, 10)
	if burned := b.Slash(keyOf(1), 1, "its replay differs"); burned != 0 {
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
	liar.Slash(keyOf(1), 0, "its replay differs")
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
	b.Slash(keyOf(8), 2, "it answered without computing")
	close(ledger.Work{Key: keyOf(7), Units: 1}, ledger.Work{Key: keyOf(8), Units: 3})
	b.want(7, 500, 0, 0, 0)
	b.want(8, 750, 0, 750, 0)
}
