package orchestrator_test

import (
	"testing"

	"github.com/iota-train/iota/protocol/message"
)

// contest runs one epoch of 3 stages with two miners each, in one of which the answers of both owners of the one shard
// and of whoever arbitrates are bent. It returns the net and the numbers of that stage's miners.
func contest(t *testing.T, bend func(owner int, r *message.Receipt)) (*net, [2]int) {
	t.Helper()
	n := newNet(t, 1, nil)
	n.hostile = true
	for i := range 6 {
		n.join(i)
	}
	owners := [2]int{0, -1}
	for i, m := range n.core.Miners {
		if i > 0 && m.Stage == n.core.Miners[0].Stage {
			owners[1] = i
		}
	}
	n.bend = func(key string, t *message.Task, r *message.Receipt) {
		id := t.GetId()
		if id.GetKind() != message.TaskKind_REDUCE || int(id.GetStage()) != n.core.Miners[0].Stage {
			return
		}
		owner := 2 // the arbiter
		for i, number := range owners {
			if number == n.number(key) {
				owner = i
			}
		}
		bend(owner, r)
	}
	n.run(20_000)
	return n, owners
}

// unfit calls a source unfit: 0 and 1 are the owners of the shard.
func unfit(r *message.Receipt, source int) { r.Sources[source].Finite = false }

// check compares what became of the second owner's work and of the first owner's word.
func check(t *testing.T, n *net, owners [2]int, merged bool, refuted int) {
	t.Helper()
	accuser, source := n.core.Miners[owners[0]], n.core.Miners[owners[1]]
	s := n.core.Stages[source.Stage]
	if (s.Unmerged == 0) != merged || s.Merged+s.Unmerged != s.Acknowledged {
		t.Errorf("%d merged, %d unmerged of %d", s.Merged, s.Unmerged, s.Acknowledged)
	}
	if (n.core.Counters.NonFinite == 0) != merged || accuser.Refuted != refuted {
		t.Errorf("%d charged, %d claims refuted", n.core.Counters.NonFinite, accuser.Refuted)
	}
}

func TestASourceIsUnfitWhenBothOwnersSaySo(t *testing.T) {
	n, owners := contest(t, func(_ int, r *message.Receipt) { unfit(r, 1) })
	check(t, n, owners, false, 0)
	if n.core.Counters.Disagreements != 0 {
		t.Error("the owners disagree")
	}
}

func TestOwnersThatDifferInASourceGoToAnArbiter(t *testing.T) {
	n, owners := contest(t, func(owner int, r *message.Receipt) {
		if owner == 0 {
			unfit(r, 1)
		}
	})
	check(t, n, owners, true, 1)
	if c, m := n.core.Counters, n.core.Miners[owners[0]]; c.Disagreements != 1 || c.ShardsLost != 0 || m.Disagreed != 1 {
		t.Errorf("%d disagreements, %d shards lost, the liar disagreed %d times", c.Disagreements, c.ShardsLost, m.Disagreed)
	}

	n, owners = contest(t, func(owner int, r *message.Receipt) {
		if owner != 1 { // who vouches for itself, in vain
			unfit(r, 1)
		}
	})
	check(t, n, owners, false, 0)
}

func TestALoneOwnersWordAgainstASourceNeedsAnArbiters(t *testing.T) {
	lone := func(arbiter func(r *message.Receipt)) (*net, [2]int) {
		return contest(t, func(owner int, r *message.Receipt) {
			switch owner {
			case 0:
				unfit(r, 1)
			case 1:
				r.Fault, r.Outputs = message.Fault_FAILED, nil
			default:
				arbiter(r)
			}
		})
	}
	n, owners := lone(func(r *message.Receipt) { unfit(r, 1) })
	check(t, n, owners, false, 0)
	n, owners = lone(func(*message.Receipt) {})
	check(t, n, owners, true, 1)
	n, owners = lone(func(r *message.Receipt) { r.Fault, r.Outputs = message.Fault_FAILED, nil }) // nobody can tell
	check(t, n, owners, true, 0)
	if n.core.Counters.ShardsLost != 0 {
		t.Error("the lone result does not stand")
	}
}

func TestAnArbiterAloneMakesNoSourceUnfit(t *testing.T) {
	n, owners := contest(t, func(owner int, r *message.Receipt) {
		switch owner {
		case 0:
			r.Outputs = []*message.BlobRef{message.NewBlob([]byte("wrong")).Ref()}
		case 2:
			unfit(r, 0)
			unfit(r, 1)
		}
	})
	check(t, n, owners, true, 0)
	if right := n.core.Miners[owners[1]]; right.Agreed != 1 || right.Disagreed != 0 {
		t.Error("the owner that was right about the shard lost agreement")
	}
}

func TestALoneOwnerIsBelievedAboutItself(t *testing.T) {
	n, owners := contest(t, func(owner int, r *message.Receipt) {
		if owner == 0 {
			r.Fault, r.Outputs = message.Fault_FAILED, nil
		} else {
			unfit(r, 1)
		}
	})
	check(t, n, owners, false, 0)
}

func TestAReductionWithoutTheStatisticsOfEverySourceIsNone(t *testing.T) {
	n, owners := contest(t, func(owner int, r *message.Receipt) {
		if owner == 0 {
			r.Sources = r.Sources[:1]
		}
	})
	check(t, n, owners, true, 0)
	if n.core.Counters.ShardsLost != 0 {
		t.Error("the other owner's result does not stand")
	}
}
