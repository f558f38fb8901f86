package butterfly

// Outcome is how the two results of a shard compare.
type Outcome int

const (
	Unknown  Outcome = iota // one result or both did not come
	Agree                   // the same hash
	Disagree                // two hashes
)

// Counts counts outcomes.
type Counts struct{ Agree, Disagree, Unknown int }

// Rate returns the share of agreement among the known outcomes, and false if there is none.
func (c Counts) Rate() (rate float64, known bool) {
	if c.Agree+c.Disagree == 0 {
		return 0, false
	}
	return float64(c.Agree) / float64(c.Agree+c.Disagree), true
}

// Agreement is the agreement matrix: the outcomes of each pair of miners over any number of merges. Two honest miners
// always agree, so the row of a liar stands out. It is symmetric, and grows with the highest number recorded; the zero
// value is empty. Cells is its whole state.
type Agreement struct {
	Cells []Counts // by pair: (0,1) (0,2) (1,2) (0,3) ...
}

// Record adds the outcome of a shard of miners i and j. A lone owner (i = j) has nobody to agree with and is not
// recorded, nor is a negative number.
func (a *Agreement) Record(i, j int, outcome Outcome) {
	if i > j {
		i, j = j, i
	}
	if i == j || i < 0 {
		return
	}
	k := rank(Pair{i, j})
	for len(a.Cells) <= k {
		a.Cells = append(a.Cells, Counts{})
	}
	switch c := &a.Cells[k]; outcome {
	case Agree:
		c.Agree++
	case Disagree:
		c.Disagree++
	default:
		c.Unknown++
	}
}

// Between returns the outcomes of two miners in either order.
func (a *Agreement) Between(i, j int) Counts {
	if i > j {
		i, j = j, i
	}
	if i == j || i < 0 {
		return Counts{}
	}
	if k := rank(Pair{i, j}); k < len(a.Cells) {
		return a.Cells[k]
	}
	return Counts{}
}

// Of returns the outcomes of a miner with all others: the sum of its row.
func (a *Agreement) Of(miner int) Counts {
	var sum Counts
	first, second := 0, 1 // the pair of cell k
	for _, c := range a.Cells {
		if first == miner || second == miner {
			sum.Agree += c.Agree
			sum.Disagree += c.Disagree
			sum.Unknown += c.Unknown
		}
		if first++; first == second {
			first, second = 0, second+1
		}
	}
	return sum
}
