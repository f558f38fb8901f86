package butterfly

import (
	"testing"

	"pgregory.net/rapid"
)

func TestTheRowOfALiarStandsOut(t *testing.T) {
	const miners, liar = 5, 3
	var a Agreement
	for seed := range uint64(4) {
		p := NewPlan(miners, 100, seeded(seed))
		for s := range p.Len() {
			outcome := Agree
			if p.Owners(s).Has(liar) {
				outcome = Disagree
			}
			a.Record(p.Owners(s).First, p.Owners(s).Second, outcome)
		}
	}
	for m := range miners {
		want, c := Counts{Agree: 12, Disagree: 4}, a.Of(m)
		if m == liar {
			want = Counts{Disagree: 16}
		}
		if c != want {
			t.Errorf("miner %d: %+v, want %+v", m, c, want)
		}
		if rate, known := c.Rate(); !known || rate != float64(want.Agree)/16 {
			t.Errorf("miner %d: rate %v, %v", m, rate, known)
		}
	}
}

func TestTheMatrixIsSymmetricAndSumsToWhatWasRecorded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Agreement
		want := map[Pair]Counts{}
		records := 0
		for range rapid.IntRange(0, 60).Draw(t, "records") {
			i, j := rapid.IntRange(-1, 8).Draw(t, "i"), rapid.IntRange(-1, 8).Draw(t, "j")
			outcome := Outcome(rapid.IntRange(int(Unknown), int(Disagree)).Draw(t, "outcome"))
			a.Record(i, j, outcome)
			if i == j || i < 0 || j < 0 {
				continue
			}
			records++
			c := want[Pair{min(i, j), max(i, j)}]
			*map[Outcome]*int{Unknown: &c.Unknown, Agree: &c.Agree, Disagree: &c.Disagree}[outcome]++
			want[Pair{min(i, j), max(i, j)}] = c
		}
		all := 0
		for i := -1; i < 10; i++ {
			var row Counts
			for j := -1; j < 10; j++ {
				c := a.Between(i, j)
				if c != want[Pair{min(i, j), max(i, j)}] {
					t.Fatalf("%d and %d: %+v", i, j, c)
				}
				row.Agree, row.Disagree, row.Unknown = row.Agree+c.Agree, row.Disagree+c.Disagree, row.Unknown+c.Unknown
			}
			if a.Of(i) != row {
				t.Fatalf("row %d is %+v, want %+v", i, a.Of(i), row)
			}
			all += row.Agree + row.Disagree + row.Unknown
		}
		if all != 2*records {
			t.Fatalf("%d outcomes in all rows, %d recorded", all, records)
		}
	})
}

func TestNoKnownOutcomeHasNoRate(t *testing.T) {
	if _, known := (Counts{Unknown: 3}).Rate(); known {
		t.Error("a rate of nothing")
	}
}
