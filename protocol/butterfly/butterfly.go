// Package butterfly says which pair of miners reduces which shard of a stage's weights in a merge (IOTA, section on
// butterfly all-reduce). Package aggregate has what a shard comes to.
//
// The flat weights of a stage are cut into one shard per unordered pair of miners. Both owners of a shard reduce it
// from the same shares and must get the same bits, so each result is checked by a distinct pair, and a miner's traffic
// does not grow with the number of miners.
package butterfly

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// Pair names the two owners of a shard by their number in the cohort, First < Second. A lone miner owns its only
// shard alone: both are 0.
type Pair struct{ First, Second int }

// Has reports whether a miner is one of the two.
func (p Pair) Has(miner int) bool { return p.First == miner || p.Second == miner }

// Other returns the owner that is not the given one: the miner itself where it owns the shard alone.
func (p Pair) Other(miner int) int {
	if p.First == miner {
		return p.Second
	}
	return p.First
}

// Shard is the slice [From, To) of the flat weights, in elements, and its owners. It may be empty.
type Shard struct {
	From, To int
	Owners   Pair
}

// Len returns the number of elements.
func (s Shard) Len() int { return s.To - s.From }

// Plan is the shard map of one merge. It is immutable.
type Plan struct {
	miners, size int
	pairs        []Pair
	byPair       []int // shard of each pair, by rank
}

// Shards returns the number of shards of a merge among so many miners: one per pair, and one for a lone miner.
func Shards(miners int) int {
	if miners < 1 {
		return 0
	}
	return max(1, miners*(miners-1)/2)
}

// NewPlan deals the shards of size elements to the pairs of so many miners in an order shuffled by rng. Equal sources
// give equal plans, whatever the Go version: rng is only asked for Uint64. Without a miner there is no shard.
func NewPlan(miners, size int, rng *rand.Rand) *Plan {
	pairs := allPairs(miners)
	for i := len(pairs) - 1; i > 0; i-- {
		high, _ := bits.Mul64(uint64(i+1), rng.Uint64())
		pairs[i], pairs[high] = pairs[high], pairs[i]
	}
	return newPlan(miners, size, pairs)
}

// FromPairs returns the plan in which shard s belongs to pairs[s], as a miner reads it from a message. It is an error
// unless every pair of miners occurs once.
func FromPairs(miners, size int, pairs []Pair) (*Plan, error) {
	// The comparison with the number of pairs first bounds miners by the length of what came in.
	if miners < 1 || miners > len(pairs)+1 || len(pairs) != Shards(miners) || size < 0 {
		return nil, fmt.Errorf("plan of %d miners, %d elements: %d pairs given", miners, size, len(pairs))
	}
	seen := make([]bool, len(pairs))
	for s, p := range pairs {
		if p.First < 0 || p.Second >= miners || p.First > p.Second || p.First == p.Second && miners > 1 {
			return nil, fmt.Errorf("shard %d: (%d, %d) is no pair of %d miners", s, p.First, p.Second, miners)
		}
		if seen[rank(p)] {
			return nil, fmt.Errorf("shard %d: pair (%d, %d) has a shard already", s, p.First, p.Second)
		}
		seen[rank(p)] = true
	}
	return newPlan(miners, size, append([]Pair(nil), pairs...)), nil
}

func newPlan(miners, size int, pairs []Pair) *Plan {
	p := &Plan{miners: miners, size: max(size, 0), pairs: pairs, byPair: make([]int, len(pairs))}
	for s, pair := range pairs {
		p.byPair[rank(pair)] = s
	}
	return p
}

// allPairs returns the pairs of so many miners in order of rank.
func allPairs(miners int) []Pair {
	if miners == 1 {
		return []Pair{{0, 0}}
	}
	pairs := make([]Pair, 0, Shards(miners))
	for second := range miners {
		for first := range second {
			pairs = append(pairs, Pair{first, second})
		}
	}
	return pairs
}

// rank numbers pairs by second, then first: (0,1) (0,2) (1,2) (0,3) ... from 0, independent of the number of miners.
func rank(p Pair) int { return p.Second*(p.Second-1)/2 + p.First }

// Miners returns the number of miners.
func (p *Plan) Miners() int { return p.miners }

// Size returns the number of elements of the flat weights.
func (p *Plan) Size() int { return p.size }

// Len returns the number of shards.
func (p *Plan) Len() int { return len(p.pairs) }

// Shard returns shard s. Shards follow each other without gap, and their lengths differ by one element at most; with
// fewer elements than shards some are empty, and are reduced to nothing like any other.
func (p *Plan) Shard(s int) Shard {
	return Shard{From: p.bound(s), To: p.bound(s + 1), Owners: p.pairs[s]}
}

// bound returns where shard s begins: s size / shards, rounded down, computed without overflow.
func (p *Plan) bound(s int) int {
	n := len(p.pairs)
	return p.size/n*s + p.size%n*s/n
}

// Owners returns the owners of shard s.
func (p *Plan) Owners(s int) Pair { return p.pairs[s] }

// Of returns the shards that a miner owns, in increasing order: miners - 1 of them, or the only one of a lone miner.
func (p *Plan) Of(miner int) []int {
	var shards []int
	for s, pair := range p.pairs {
		if pair.Has(miner) {
			shards = append(shards, s)
		}
	}
	return shards
}

// ByPair returns the shard of two miners in either order. The second result is false if they own none.
func (p *Plan) ByPair(a, b int) (shard int, ok bool) {
	if a > b {
		a, b = b, a
	}
	if a < 0 || b >= p.miners || a == b && p.miners > 1 {
		return 0, false
	}
	return p.byPair[rank(Pair{a, b})], true
}

// Lost returns the shards whose owners are all dead, in increasing order.
func (p *Plan) Lost(dead func(miner int) bool) []int {
	var shards []int
	for s, pair := range p.pairs {
		if dead(pair.First) && dead(pair.Second) {
			shards = append(shards, s)
		}
	}
	return shards
}

// LostFraction returns the share of a merge's shards that are lost when dead of the miners are: f(f-1) / (N(N-1)). It
// is exact, not an expectation: the shards of any f miners' pairs are f(f-1)/2.
func LostFraction(miners, dead int) float64 {
	if miners < 2 {
		return float64(dead)
	}
	return float64(dead*(dead-1)) / float64(miners*(miners-1))
}

// Traffic counts what one miner moves in a merge, in elements of the flat weights.
type Traffic struct {
	Share   int // sent: its pseudo-gradient
	Fetch   int // received: the shares of its shards, its own among them
	Results int // sent: its reduced shards
	Install int // received: the merged weights
}

// Total returns all elements sent and received.
func (t Traffic) Total() int { return t.Share + t.Fetch + t.Results + t.Install }

// Traffic returns what a miner moves if all miners share. For two miners or more and W elements that the shards divide
// evenly it is W + 2W + 2W/N + W = 4W + 2W/N. A lone miner owns all, and moves 4W.
func (p *Plan) Traffic(miner int) Traffic {
	t := Traffic{Share: p.size, Install: p.size}
	for _, s := range p.Of(miner) {
		n := p.Shard(s).Len()
		t.Fetch += p.miners * n
		t.Results += n
	}
	return t
}
