package ledger

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"
)

// ErrOverflow says that an amount does not fit. Nothing is wrapped and nothing was booked.
var ErrOverflow = errors.New("amount too large for the ledger: use a smaller budget per token")

// errNobody says that there is something to divide and nobody to get it.
var errNobody = errors.New("a budget without any work")

// Split divides a budget in proportion to work by largest remainders: everybody gets the whole part of budget times its
// work over all work, and those with the largest remainders get one more, ties by place in the list. So the parts sum to
// the budget exactly, each lies less than one from its exact share, and who did nothing gets nothing. Products have 128
// bits; the one thing refused is work whose sum exceeds 64 bits, or a budget that nobody worked for.
func Split(budget uint64, work []uint64) ([]uint64, error) {
	total, ok := sum(work)
	switch {
	case !ok:
		return nil, ErrOverflow
	case total == 0 && budget > 0:
		return nil, errNobody
	}
	parts, order, rest := make([]uint64, len(work)), make([]int, len(work)), make([]uint64, len(work))
	left := budget
	for i, w := range work {
		if order[i] = i; w == 0 {
			continue
		}
		hi, lo := bits.Mul64(budget, w) // hi < w <= total
		parts[i], rest[i] = bits.Div64(hi, lo, total)
		left -= parts[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, i := range order[:left] {
		parts[i]++
	}
	return parts, nil
}

// sum adds, and reports false where the sum does not fit.
func sum(list []uint64) (total uint64, ok bool) {
	for _, x := range list {
		var carry uint64
		if total, carry = bits.Add64(total, x, 0); carry != 0 {
			return 0, false
		}
	}
	return total, true
}

// share is a times b over c, rounded down, and false where that does not fit. c is not 0.
func share(a, b, c uint64) (uint64, bool) {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, c)
	return q, true
}
