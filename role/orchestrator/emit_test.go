package orchestrator_test

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// earners is a network of six miners in three stages whose ledger is read as it leaves the core.
type earners struct {
	*net
	reader ledger.Reader
	read   int // pages
}

func newEarners(t *testing.T, epochs uint32, change func(*message.Rules)) *earners {
	n := &earners{net: newNet(t, epochs, change)}
	for i := range 6 {
		n.join(i)
	}
	return n
}

// until answers orders until the epoch began, or the run ended, and checks the pages that left.
func (n *earners) until(epoch uint64) {
	n.t.Helper()
	for range 50_000 {
		if v := n.core.View(); v.Finished || v.Epoch >= epoch {
			n.check()
			return
		}
		n.now += time.Millisecond
		n.one()
	}
	n.t.Fatalf("epoch %d does not begin", epoch)
}

// check reads the pages that left since the last check and compares their books with the core's.
func (n *earners) check() {
	n.t.Helper()
	for ; n.read < len(n.pages); n.read++ {
		if err := n.reader.Page(message.Hash(n.m), n.pages[n.read]); err != nil {
			n.t.Fatal(err)
		}
	}
	v := n.core.View().Ledger
	if !bytes.Equal(v.Root, n.reader.Root) || v.Pages != n.reader.Closings {
		n.t.Fatalf("page %d ends in root %x, the core is at page %d and root %x", n.reader.Closings, n.reader.Root, v.Pages, v.Root)
	}
	if v.Issued != v.Paid+v.Escrow+v.Burned {
		n.t.Fatalf("issued %d, paid %d, escrow %d, burned %d", v.Issued, v.Paid, v.Escrow, v.Burned)
	}
}

func TestAnHonestRunEarnsExactlyItsBudget(t *testing.T) {
	n := newEarners(t, 6, func(r *message.Rules) { r.ValidatorPart, r.Probation = 0, 0 })
	n.until(7)
	v := n.core.View()
	if want := v.Counters.Tokens * n.m.Rules.BudgetPerToken; v.Ledger.Paid != want || v.Ledger.Burned+v.Ledger.Escrow != 0 || !v.Finished {
		t.Errorf("%d tokens: %+v, want %d paid", v.Counters.Tokens, v.Ledger, want)
	}
	var earned uint64
	for _, m := range v.Miners {
		earned += m.Pay.Earned
	}
	if earned != v.Ledger.Paid {
		t.Errorf("the miners earned %d of %d", earned, v.Ledger.Paid)
	}
}

func TestProbationAndTheValidatorsPartAreBurnedWithoutValidators(t *testing.T) {
	n := newEarners(t, 6, func(r *message.Rules) { r.Probation = 20 })
	n.until(7)
	v := n.core.View()
	issued := v.Counters.Tokens * n.m.Rules.BudgetPerToken
	probation := uint64(0)
	for _, m := range v.Miners {
		probation += m.Pay.Probation
		if m.Backwards > uint64(n.m.Rules.Probation) != (m.Pay.Earned > 0) || m.Pay.Left != 0 && m.Pay.Earned > 0 {
			t.Errorf("miner %d: %d backwards, %+v", m.Number, m.Backwards, m.Pay)
		}
	}
	if l := v.Ledger; l.Issued != issued || l.Burned-probation < issued/10-6 || l.Burned-probation > issued/10 || probation == 0 || l.Paid == 0 {
		t.Errorf("%+v, %d burned in probation, want %d issued", l, probation, issued)
	}
}

func TestPayPerMicroBatchAndCostIsTheSameForEverybody(t *testing.T) {
	n := newEarners(t, 5, func(r *message.Rules) { r.Probation, r.ChallengeWindow = 0, 9 })
	price := 0.9 * float64(manifest.Pay(n.m).PerBatch) // of a micro-batch of the whole model
	n.until(4)
	for _, m := range n.core.View().Miners {
		if got := float64(m.Pay.Escrow) / m.Pay.Score; math.Abs(got/price-1) > 1e-4 {
			t.Errorf("miner %d earns %.0f per micro-batch, not %.0f", m.Number, got, price)
		}
	}
}

func TestAFailedVerdictBurnsEscrowAndLeavesTheOthersAlone(t *testing.T) {
	rules := func(r *message.Rules) { r.Probation = 0 }
	honest, n := newEarners(t, 8, rules), newEarners(t, 8, rules)
	for _, e := range []*earners{honest, n} {
		e.until(3)
	}
	before := n.core.View().Miners[0].Pay
	n.core.Burn(0, "its replay of segment 3 differs")
	after := n.core.View().Miners[0].Pay
	if after.Slashed == 0 || after.Slashed != before.Escrow || after.Escrow != 0 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	honest.until(9)
	n.until(9)
	for i, m := range n.core.View().Miners {
		want := honest.core.View().Miners[i].Pay
		switch got := m.Pay; {
		case i == 0 && (got.Earned != after.Escrow || got.Slashed+got.Earned != want.Earned):
			t.Errorf("the liar has %+v, honest it would have %+v", got, want)
		case i > 0 && got != want:
			t.Errorf("miner %d has %+v, without a liar %+v", m.Number, got, want)
		}
	}
}

func TestValidatorsSharePartOfTheBudgetByWhatTheyReplayed(t *testing.T) {
	n := newEarners(t, 3, func(r *message.Rules) { r.Probation = 5 })
	n.until(1)
	lazy, busy := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	n.core.CreditReplay(lazy, 0, 5)
	n.core.CreditReplay(busy, 0, 5)
	n.until(2) // which ends their probation
	n.core.CreditReplay(lazy, 0, 5)
	n.core.CreditReplay(busy, 0, 5)
	n.core.CreditReplay(busy, 0, 10)
	n.until(4)
	v := n.core.View().Ledger.Validators
	if len(v) != 2 || v[0].Pay.Earned == 0 {
		t.Fatalf("%+v", v)
	}
	if d := int64(v[1].Pay.Earned) - 3*int64(v[0].Pay.Earned); d < -3 || d > 3 {
		t.Errorf("%+v", v)
	}
}

func TestUnmergedWorkIsPaidWhenItWasReplayed(t *testing.T) {
	rules := func(r *message.Rules) { r.Probation, r.ValidatorPart = 0, 0 }
	plain, n := newEarners(t, 3, rules), newEarners(t, 3, rules)
	for _, e := range []*earners{plain, n} {
		e.until(1)
	}
	n.core.CreditUnmerged(2, 1, 4)
	plain.until(4)
	n.until(4)
	price := 4 * float64(manifest.Pay(n.m).PerBatch) / 3 // of four micro-batches in about a third of the model
	for i, m := range n.core.View().Miners {
		more := float64(m.Pay.Earned) - float64(plain.core.View().Miners[i].Pay.Earned)
		if i == 2 && math.Abs(more/price-1) > 0.2 || i != 2 && math.Abs(more) > 3 {
			t.Errorf("miner %d earned %.0f more, miner 3 should have %.0f", m.Number, more, price)
		}
	}
}

func TestAStoppedRunKeepsItsEscrow(t *testing.T) {
	n := newEarners(t, 9, func(r *message.Rules) { r.Probation = 0 })
	n.until(2)
	n.send(&message.Event{Kind: &message.Event_Stop{Stop: &message.Stop{AtOnce: true}}})
	n.check()
	if v := n.core.View(); !v.Finished || v.Ledger.Escrow == 0 || v.Ledger.Paid != 0 {
		t.Errorf("%+v", v.Ledger)
	}
}
