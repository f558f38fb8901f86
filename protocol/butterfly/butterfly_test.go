package butterfly

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func drawPlan(t *rapid.T, miners, size int) *Plan {
	return NewPlan(miners, size, seeded(rapid.Uint64().Draw(t, "seed")))
}

func TestThreeMinersByHand(t *testing.T) {
	p, err := FromPairs(3, 10, []Pair{{1, 2}, {0, 1}, {0, 2}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Shard{{0, 3, Pair{1, 2}}, {3, 6, Pair{0, 1}}, {6, 10, Pair{0, 2}}}
	for s := range want {
		if p.Shard(s) != want[s] {
			t.Errorf("shard %d is %v, want %v", s, p.Shard(s), want[s])
		}
	}
	if of := p.Of(0); !slices.Equal(of, []int{1, 2}) {
		t.Errorf("miner 0 owns %v", of)
	}
	if s, ok := p.ByPair(2, 0); !ok || s != 2 {
		t.Errorf("pair (2, 0) owns shard %d, %v", s, ok)
	}
	if tr := p.Traffic(0); tr != (Traffic{Share: 10, Fetch: 21, Results: 7, Install: 10}) {
		t.Errorf("miner 0 moves %+v", tr)
	}
	if lost := p.Lost(func(m int) bool { return m != 0 }); !slices.Equal(lost, []int{0}) {
		t.Errorf("with 1 and 2 dead, %v are lost", lost)
	}
}

func TestALoneMinerOwnsTheOnlyShardAlone(t *testing.T) {
	p := NewPlan(1, 7, seeded(1))
	if p.Len() != 1 || p.Shard(0) != (Shard{0, 7, Pair{0, 0}}) || !slices.Equal(p.Of(0), []int{0}) {
		t.Errorf("%d shards, %v, owned %v", p.Len(), p.Shard(0), p.Of(0))
	}
	if s, ok := p.ByPair(0, 0); !ok || s != 0 {
		t.Errorf("ByPair gives %d, %v", s, ok)
	}
	if total := p.Traffic(0).Total(); total != 4*7 {
		t.Errorf("a lone miner moves %d", total)
	}
	if p := NewPlan(0, 7, seeded(1)); p.Len() != 0 || p.Of(0) != nil {
		t.Errorf("a plan of nobody has %d shards", p.Len())
	}
}

func TestEveryShardIsCoveredByADistinctPair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		miners := rapid.IntRange(2, 40).Draw(t, "miners")
		size := rapid.IntRange(0, 100_000).Draw(t, "size")
		p := drawPlan(t, miners, size)
		if p.Len() != miners*(miners-1)/2 || p.Miners() != miners || p.Size() != size {
			t.Fatalf("%d shards of %d miners", p.Len(), p.Miners())
		}
		next, seen := 0, map[Pair]bool{}
		for s := range p.Len() {
			shard := p.Shard(s)
			if shard.From != next || shard.To < shard.From {
				t.Fatalf("shard %d is [%d, %d), the one before ends at %d", s, shard.From, shard.To, next)
			}
			if n := shard.Len(); n != size/p.Len() && n != size/p.Len()+1 {
				t.Fatalf("shard %d has %d of %d elements", s, n, size)
			}
			o := shard.Owners
			if o.First < 0 || o.First >= o.Second || o.Second >= miners || seen[o] {
				t.Fatalf("shard %d belongs to %v", s, o)
			}
			if o != p.Owners(s) || o.Other(o.First) != o.Second || o.Other(o.Second) != o.First {
				t.Fatalf("owners of shard %d differ: %v", s, o)
			}
			if at, ok := p.ByPair(o.Second, o.First); !ok || at != s {
				t.Fatalf("pair %v is said to own shard %d", o, at)
			}
			seen[o], next = true, shard.To
		}
		if next != size {
			t.Fatalf("the shards end at %d of %d", next, size)
		}
		for m := range miners {
			if of := p.Of(m); len(of) != miners-1 || !slices.IsSorted(of) {
				t.Fatalf("miner %d owns %v", m, of)
			}
		}
	})
}

func TestBytesPerMinerAreConstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		miners := rapid.IntRange(2, 30).Draw(t, "miners")
		w := Shards(miners) * rapid.IntRange(0, 1000).Draw(t, "elements per shard")
		p := drawPlan(t, miners, w)
		for m := range miners {
			if got, want := p.Traffic(m).Total(), 4*w+2*w/miners; got != want {
				t.Fatalf("miner %d of %d moves %d elements of %d, want %d", m, miners, got, w, want)
			}
		}
		// Any size: each of the N-1 shards may have one element more than even ones, moved N+1 times.
		size := w + rapid.IntRange(0, 500).Draw(t, "rest")
		uneven := drawPlan(t, miners, size)
		for m := range miners {
			got, want := float64(uneven.Traffic(m).Total()), 4*float64(size)+2*float64(size)/float64(miners)
			if math.Abs(got-want) > float64((miners-1)*(miners+1)) {
				t.Fatalf("miner %d of %d moves %v elements of %d, want about %v", m, miners, got, size, want)
			}
		}
	})
}

func TestEverySetOfDeadMinersLosesTheStatedFraction(t *testing.T) {
	for miners := 1; miners <= 10; miners++ {
		p := NewPlan(miners, 1000, seeded(uint64(miners)))
		for set := range uint(1) << miners {
			lost := p.Lost(func(m int) bool { return set>>m&1 == 1 })
			dead := bits.OnesCount(set)
			if got, want := float64(len(lost))/float64(p.Len()), LostFraction(miners, dead); math.Abs(got-want) > 1e-12 {
				t.Fatalf("%d of %d dead (%b): lost %v, want %v", dead, miners, set, got, want)
			}
		}
	}
}

func TestPlanFollowsFromItsSourceAlone(t *testing.T) {
	a, b := NewPlan(5, 100, seeded(3)), NewPlan(5, 100, seeded(3))
	if !reflect.DeepEqual(a, b) {
		t.Error("two plans of one seed differ")
	}
	want := []Pair{{0, 1}, {3, 4}, {1, 4}, {0, 4}, {2, 3}, {0, 3}, {1, 3}, {0, 2}, {2, 4}, {1, 2}}
	if !slices.Equal(a.pairs, want) {
		t.Errorf("the plan of seed 3 changed: %v", a.pairs)
	}
}

func TestShuffleGivesEveryPairEveryShard(t *testing.T) {
	counts := map[Pair]int{}
	for seed := range uint64(6000) {
		counts[NewPlan(4, 6, seeded(seed)).Owners(2)]++
	}
	for pair, n := range counts {
		if n < 850 || n > 1150 {
			t.Errorf("%v owned shard 2 in %d of 6000 plans", pair, n)
		}
	}
	if len(counts) != 6 {
		t.Errorf("only %d pairs ever owned shard 2", len(counts))
	}
}

func TestFromPairsTakesTheOrderOfAPlanAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		miners := rapid.IntRange(1, 12).Draw(t, "miners")
		p := drawPlan(t, miners, 1000)
		again, err := FromPairs(miners, 1000, p.pairs)
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatal("the plan differs from the one it was read from", err)
		}
	})
	for name, c := range map[string]struct {
		miners, size int
		pairs        []Pair
	}{
		"no miner":        {0, 1, nil},
		"too few pairs":   {3, 1, []Pair{{0, 1}, {0, 2}}},
		"too many miners": {math.MaxInt, 1, []Pair{{0, 1}}},
		"a pair twice":    {3, 1, []Pair{{0, 1}, {0, 2}, {0, 1}}},
		"reversed":        {2, 1, []Pair{{1, 0}}},
		"alone":           {2, 1, []Pair{{1, 1}}},
		"out of range":    {2, 1, []Pair{{0, 2}}},
		"negative":        {2, 1, []Pair{{-1, 1}}},
		"negative size":   {2, -1, []Pair{{0, 1}}},
		"lone, not 0":     {1, 1, []Pair{{0, 1}}},
	} {
		if _, err := FromPairs(c.miners, c.size, c.pairs); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestByPairKnowsNoStrangers(t *testing.T) {
	p := NewPlan(3, 9, seeded(1))
	for _, pair := range [][2]int{{0, 0}, {1, 3}, {-1, 0}, {3, 3}} {
		if s, ok := p.ByPair(pair[0], pair[1]); ok {
			t.Errorf("%v own shard %d", pair, s)
		}
	}
}
