package ledger_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/iota-train/iota/protocol/ledger"
)

func keyOf(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, 32) }

// anyWork draws what up to six keys did. Keys stand in the list in any order and any number of times.
func anyWork(t *rapid.T, label string, most uint64) []ledger.Work {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ledger.Work {
		n := rapid.IntRange(0, 5).Draw(t, "key")
		b := rapid.Uint64Range(0, most).Draw(t, "batches")
		return ledger.Work{Number: n, Key: keyOf(n), Batches: b, Units: rapid.Uint64Range(0, most).Draw(t, "units")}
	}), 0, 10).Draw(t, label)
}

func anyRules(t *rapid.T) ledger.Rules {
	return ledger.Rules{
		PerBatch: rapid.Uint64Range(0, 1<<40).Draw(t, "per batch"), Validators: rapid.Uint64Range(0, 1_000_000).Draw(t, "validators"),
		Window: rapid.Uint64Range(0, 3).Draw(t, "window"), Probation: rapid.Uint64Range(0, 100).Draw(t, "probation"),
		Proofs: rapid.Bool().Draw(t, "proofs"),
	}
}

// sums adds up the accounts of the entries of a page.
func sums(t *rapid.T, page []byte, accounts map[ledger.Account]*big.Int) (issued uint64) {
	for line := range bytes.Lines(page) {
		var e ledger.Entry
		if json.Unmarshal(line, &e) != nil || e.Number == 0 {
			continue
		}
		for _, a := range []ledger.Account{e.From, e.To} {
			if accounts[a] == nil {
				accounts[a] = new(big.Int)
			}
		}
		amount := new(big.Int).SetUint64(e.Amount)
		accounts[e.From].Sub(accounts[e.From], amount)
		accounts[e.To].Add(accounts[e.To], amount)
		if e.From == ledger.Issue {
			issued += e.Amount
		}
	}
	return issued
}

// check holds the books against what was added up independently.
func check(t *rapid.T, l *ledger.Ledger, accounts map[ledger.Account]*big.Int) {
	total := new(big.Int)
	for _, a := range accounts {
		total.Add(total, a)
	}
	if total.Sign() != 0 {
		t.Fatalf("the accounts sum to %v", total)
	}
	for a, want := range map[ledger.Account]uint64{ledger.Escrow: l.Escrow, ledger.Paid: l.Paid, ledger.Burn: l.Burned} {
		if got := accounts[a]; got != nil && got.Cmp(new(big.Int).SetUint64(want)) != 0 {
			t.Fatalf("%s: the entries make %v, the books say %d", a, got, want)
		}
	}
	var escrow, paid, lots uint64
	for _, h := range l.Holders {
		escrow, paid = escrow+h.Escrow, paid+h.Paid
	}
	for _, lot := range l.Lots {
		lots += lot.Amount
	}
	if l.Issued != l.Burned+l.Paid+l.Escrow || escrow != l.Escrow || lots != l.Escrow || paid != l.Paid {
		t.Fatalf("issued %d, burned %d, paid %d of %d, escrow %d of %d and %d", l.Issued, l.Burned, l.Paid, paid, l.Escrow, escrow, lots)
	}
}

func TestEntriesSumToZeroAndEmissionsToTheBudgetWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, l, accounts := anyRules(t), ledger.New([]byte("run")), map[ledger.Account]*big.Int{}
		var reader ledger.Reader
		for epoch := range uint64(rapid.IntRange(1, 6).Draw(t, "epochs")) {
			work, replays := anyWork(t, "work", 1<<20), anyWork(t, "replays", 1<<20)
			var units uint64
			for _, w := range work {
				units += w.Units
			}
			budget := new(big.Int).Mul(new(big.Int).SetUint64(r.PerBatch), new(big.Int).SetUint64(units))
			budget.Div(budget, big.NewInt(ledger.Whole))
			page, err := l.Close(r, epoch, work, replays)
			if err != nil {
				t.Fatal(err)
			}
			if issued := sums(t, page, accounts); budget.Cmp(new(big.Int).SetUint64(issued)) != 0 {
				t.Fatalf("issued %d of a budget of %v", issued, budget)
			}
			check(t, &l, accounts)
			if err := reader.Page([]byte("run"), page); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "proof") {
				l.Prove(keyOf(rapid.IntRange(0, 6).Draw(t, "good")), rapid.Uint64Range(0, epoch).Draw(t, "proven"))
			}
			if rapid.Bool().Draw(t, "verdict") {
				l.Slash(keyOf(rapid.IntRange(0, 6).Draw(t, "liar")), "it lied")
			}
		}
		page := l.Settle(r, 9)
		sums(t, page, accounts)
		check(t, &l, accounts)
		if err := reader.Page([]byte("run"), page); err != nil {
			t.Fatal(err)
		}
		if l.Escrow != 0 && !r.Proofs || fmt.Sprint(reader.Ledger) != fmt.Sprint(l) {
			t.Fatalf("read from its pages the ledger is\n%v, not\n%v", reader.Ledger, l)
		}
	})
}

func TestSplitGivesTheBudgetExactlyAndEverybodyWithinOneOfItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.Uint64().Draw(t, "budget")
		work := rapid.SliceOfN(rapid.Uint64(), 1, 20).Draw(t, "work")
		total := new(big.Int)
		for _, w := range work {
			total.Add(total, new(big.Int).SetUint64(w))
		}
		parts, err := ledger.Split(budget, work)
		if !total.IsUint64() || total.Sign() == 0 && budget > 0 {
			if err == nil {
				t.Fatal("work that does not fit, or none, was accepted")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := new(big.Int)
		for i, p := range parts {
			sum.Add(sum, new(big.Int).SetUint64(p))
			if total.Sign() == 0 {
				continue
			}
			// |p total - budget w| < total
			d := new(big.Int).Mul(new(big.Int).SetUint64(p), total)
			d.Sub(d, new(big.Int).Mul(new(big.Int).SetUint64(budget), new(big.Int).SetUint64(work[i])))
			if d.Abs(d).Cmp(total) >= 0 {
				t.Fatalf("part %d of %d for work %d is a whole unit off", i, p, work[i])
			}
		}
		if sum.Cmp(new(big.Int).SetUint64(budget)) != 0 {
			t.Fatalf("the parts sum to %v of %d", sum, budget)
		}
	})
}

func TestTwiceTheWorkEarnsTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := ledger.Rules{PerBatch: rapid.Uint64Range(1, 1<<30).Draw(t, "per batch")}
		b := rapid.Uint64Range(1, 1000).Draw(t, "batches")
		work := []ledger.Work{
			{Number: 0, Key: keyOf(0), Batches: b, Units: 333_333 * b}, {Number: 1, Key: keyOf(1), Batches: 2 * b, Units: 2 * 333_333 * b},
		}
		for n := range rapid.IntRange(0, 6).Draw(t, "others") {
			m := rapid.Uint64Range(1, 1000).Draw(t, "theirs")
			work = append(work, ledger.Work{Number: n + 2, Key: keyOf(n + 2), Batches: m, Units: m * 250_000})
		}
		l := ledger.New(nil)
		if _, err := l.Close(r, 0, work, nil); err != nil {
			t.Fatal(err)
		}
		// Each is less than one micro-unit from its share, so twice the one is less than three from the other.
		one, two := int64(l.Find(keyOf(0)).Paid), int64(l.Find(keyOf(1)).Paid)
		if d := two - 2*one; d < -2 || d > 2 {
			t.Fatalf("%d for once, %d for twice the work", one, two)
		}
	})
}

func TestTheOrderOfArrivalChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRules(t)
		work, replays := anyWork(t, "work", 1<<20), anyWork(t, "replays", 1<<20)
		a, b := ledger.New(nil), ledger.New(nil)
		for epoch := range uint64(3) {
			one, err := a.Close(r, epoch, work, replays)
			two, other := b.Close(r, epoch, rapid.Permutation(work).Draw(t, "order"), rapid.Permutation(replays).Draw(t, "of replays"))
			if err != nil || other != nil || !bytes.Equal(one, two) || !bytes.Equal(a.Root, b.Root) {
				t.Fatalf("%v, %v:\n%s\n%s", err, other, one, two)
			}
		}
	})
}

func TestOverflowIsRefusedAndChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRules(t)
		r.PerBatch = rapid.Uint64().Draw(t, "any per batch")
		l := ledger.New(nil)
		for epoch := range uint64(4) {
			before := fmt.Sprint(l)
			page, err := l.Close(r, epoch, anyWork(t, "work", math.MaxUint64), anyWork(t, "replays", math.MaxUint64))
			switch {
			case err != nil && !errors.Is(err, ledger.ErrOverflow):
				t.Fatal(err)
			case err != nil && before != fmt.Sprint(l):
				t.Fatal("a refused epoch left something in the books")
			}
			check(t, &l, nil)
			sums(t, page, map[ledger.Account]*big.Int{})
			l.Slash(keyOf(rapid.IntRange(0, 6).Draw(t, "liar")), "")
			if l.Issued > math.MaxInt64 {
				t.Fatal("more than 63 bits were issued")
			}
		}
	})
}

func TestASnapshotOfTheBooksGoesOnAsTheyDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, l := anyRules(t), ledger.New([]byte("run"))
		if _, err := l.Close(r, 0, anyWork(t, "work", 1<<20), nil); err != nil {
			t.Fatal(err)
		}
		l.Slash(keyOf(0), "it lied")
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var again ledger.Ledger
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		work := anyWork(t, "more work", 1<<20)
		one, _ := l.Close(r, 1, work, nil)
		two, _ := again.Close(r, 1, work, nil)
		if !bytes.Equal(one, two) {
			t.Fatalf("%s\n%s", one, two)
		}
	})
}

// stored is a ledger of a few epochs, with proofs and a slash, as a file holds it.
func stored(t *testing.T) []byte {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	manifest := bytes.Repeat([]byte{7}, 32)
	l, file := ledger.New(manifest), ledger.Header(manifest, key)
	r := ledger.Rules{PerBatch: 512_000, Validators: 100_000, Window: 2, Probation: 5, Proofs: true}
	for epoch := range uint64(5) {
		if epoch > 0 {
			l.Prove(keyOf(0), epoch-1)
		}
		if epoch == 3 {
			l.Slash(keyOf(1), "its replay differs")
		}
		var work, replays []ledger.Work
		for n := range 3 {
			work = append(work, ledger.Work{Number: n, Key: keyOf(n), Batches: uint64(3 + n), Units: uint64(3+n) * 333_333})
		}
		if epoch > 1 {
			replays = []ledger.Work{{Key: keyOf(9), Units: 1}}
		}
		page, err := l.Close(r, epoch, work, replays)
		if err != nil {
			t.Fatal(err)
		}
		file = append(file, ledger.Sign(page, key)...)
	}
	for n := range 3 {
		l.Prove(keyOf(n), 4)
	}
	return append(file, ledger.Sign(l.Settle(r, 5), key)...)
}

// read takes in a file and returns its books.
func read(file []byte) (*ledger.Reader, error) {
	var r ledger.Reader
	for line := range bytes.Lines(file) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return &r, errors.New("the last line is not whole")
		}
		if err := r.Line(line[:len(line)-1]); err != nil {
			return &r, err
		}
	}
	return &r, r.End()
}

func TestAFlippedByteAnywhereIsFoundAndNamed(t *testing.T) {
	file := stored(t)
	if r, err := read(file); err != nil || r.Escrow != 0 || r.Paid == 0 || r.Find(keyOf(1)).Slashed == 0 {
		t.Fatalf("%v, %+v", err, r)
	}
	line := 1
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 1 << (i % 8)
		_, err := read(bad)
		switch {
		case err == nil:
			t.Fatalf("byte %d of line %d was changed and nobody noticed", i, line)
		case i < len(file)-1 && !bytes.HasPrefix([]byte(err.Error()), fmt.Appendf(nil, "line %d, ", line)):
			t.Fatalf("byte %d of line %d: %v", i, line, err)
		}
		if file[i] == '\n' {
			line++
		}
	}
}

func TestALineThatIsMissingDoubledOrMovedIsFound(t *testing.T) {
	lines := slices.Collect(bytes.Lines(stored(t)))
	for i := range lines {
		rest := slices.Concat(lines[:i], lines[i+1:])
		if _, err := read(bytes.Join(rest, nil)); err == nil {
			t.Errorf("line %d is missing and nobody noticed", i+1)
		}
		if _, err := read(bytes.Join(slices.Insert(slices.Clone(lines), i, lines[i]), nil)); err == nil {
			t.Errorf("line %d stands twice and nobody noticed", i+1)
		}
	}
	for i := range len(lines) - 1 {
		moved := slices.Clone(lines)
		moved[i], moved[i+1] = moved[i+1], moved[i]
		if _, err := read(bytes.Join(moved, nil)); err == nil {
			t.Errorf("lines %d and %d are exchanged and nobody noticed", i+1, i+2)
		}
	}
}

func TestAnyTextIsReadWithoutAPanic(t *testing.T) {
	file := stored(t)
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.IntRange(0, len(file)-1).Draw(t, "from")
		junk := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "junk")
		if _, err := read(slices.Concat(file[:from], junk, file[from:])); err == nil && len(junk) > 0 {
			t.Fatal("junk was accepted")
		}
	})
}
