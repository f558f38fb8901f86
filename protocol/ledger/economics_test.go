package ledger_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/iota-train/iota/protocol/ledger"
)

// cheat is a participant of docs/economics.md who plays against the ledger, one key after the other.
type cheat struct {
	rate, audit float64
	segment     int  // L
	sleeper     bool // honest in probation
}

// The example of the document.
const (
	perEpoch  = 12
	probation = 36
	window    = 4
	played    = 8000 // epochs
)

// found is D of formula (2).
func (c cheat) found() float64 {
	return 1 - math.Pow(1-c.audit*(1-math.Pow(1-c.rate, float64(c.segment))), perEpoch/float64(c.segment))
}

// play returns the share of the pay of an honest miner that the cheater gets, and the share of its epochs of cheating in
// which it is found. The verdict is there before the next epoch.
func (c cheat) play(t *testing.T, dice *rand.Rand) (paid, found float64) {
	r := ledger.Rules{PerBatch: 1000, Window: window, Probation: probation}
	l, key, age := ledger.New(nil), uint64(1), 0
	cheated, caught := 0.0, 0.0
	for epoch := range uint64(played) {
		name := binary.BigEndian.AppendUint64(nil, key)
		work := []ledger.Work{{Key: name, Batches: perEpoch, Units: perEpoch * ledger.Whole}}
		if _, err := l.Close(r, epoch, work, nil); err != nil {
			t.Fatal(err)
		}
		age++
		if c.sleeper && age <= probation/perEpoch {
			continue
		}
		cheated++
		failed := false
		for range perEpoch / c.segment {
			bad := false
			for range c.segment {
				bad = dice.Float64() < c.rate || bad
			}
			failed = dice.Float64() < c.audit && bad || failed
		}
		if failed {
			caught++
			l.Slash(name, "its replay differs")
			key, age = key+1, 0
		}
	}
	return float64(l.Paid+l.Escrow) / (perEpoch * 1000 * played), caught / cheated
}

func TestCheatersEarnWhatTheDocumentDerives(t *testing.T) {
	honest := 0.0
	for _, c := range []cheat{
		{rate: 1, audit: 0.1, segment: 4}, {rate: 0.1, audit: 0.1, segment: 4}, {rate: 0.1, audit: 0.2, segment: 2},
		{rate: 0.3, audit: 0.05, segment: 1}, {rate: 1, audit: 0.1, segment: 4, sleeper: true}, {rate: 0.1, audit: 0.2, segment: 2, sleeper: true},
		{rate: 0, audit: 0.2, segment: 2},
	} {
		paid, found := c.play(t, rand.New(rand.NewPCG(1, 2)))
		d, wait := c.found(), float64(probation)/perEpoch
		want := math.Pow(1-found, wait+window) // formula (5), with what was measured for D
		if c.sleeper {
			want = math.Pow(1-found, window) / (1 + found*wait)
		}
		if c.rate == 0 {
			honest = paid
			want = 1 - wait/played
		}
		if math.Abs(found-d) > 0.015 || math.Abs(paid-want) > 0.02 {
			t.Errorf("%+v: found %.3f and paid %.3f, derived %.3f and %.3f", c, found, paid, d, want)
		}
	}
	if math.Abs(honest-1) > 1e-3 {
		t.Errorf("an honest miner is paid %.4f of its work", honest)
	}
}

func TestTheTablesOfTheDocumentFollowFromItsFormulas(t *testing.T) {
	b, err := os.ReadFile("../../docs/economics.md")
	if err != nil {
		t.Fatal(err)
	}
	const keyProbation, saved, left = 32, 0.76, 0.04 // T, s c / p and (1 - s) c / p of the worked example
	word := func(holds bool, otherwise string) string {
		if holds {
			return "holds"
		}
		return otherwise
	}
	for _, c := range []cheat{{audit: 0.05, segment: 1}, {audit: 0.05, segment: 2}, {audit: 0.1, segment: 1}, {audit: 0.1, segment: 2},
		{audit: 0.1, segment: 4}, {audit: 0.2, segment: 2}, {audit: 0.2, segment: 4}} {
		full, some, size := c, c, float64(c.segment)
		full.rate, some.rate = 1, 0.1
		miss := func(batches float64) float64 { return math.Pow(1-c.audit, batches/size) }
		seen, many := 1-miss(keyProbation+window*perEpoch), 1-miss(keyProbation)
		for _, row := range []string{
			fmt.Sprintf("| %g | %d | %.3f | %.3f | %.3f | %.3f |", c.audit, c.segment, full.found(), 1-math.Pow(1-full.found(), 3),
				some.found(), 1-math.Pow(1-some.found(), 4)),
			fmt.Sprintf("| %g, %d | %.3f, %s | %.3f, %s | %.3f, %s |", c.audit, c.segment, seen, word(seen > saved, "no"), 1-seen,
				word(1-seen < left, "no"), many, word(many > saved, fmt.Sprintf("no: T > %.0f",
					math.Floor(size*math.Log(1-saved)/math.Log(1-c.audit))))),
		} {
			if !strings.Contains(string(b), row+"\n") {
				t.Errorf("the document lacks the row %s", row)
			}
		}
	}
}
