package orchestrator_test

import (
	"slices"
	"testing"

	"github.com/iota-train/iota/protocol/message"
)

// isWire reports whether a task belongs to a micro-batch's way.
func isWire(t *message.Task) bool {
	switch t.GetId().GetKind() {
	case message.TaskKind_FORWARD, message.TaskKind_LOSS, message.TaskKind_BACKWARD, message.TaskKind_EVALUATE:
		return true
	}
	return false
}

// fail makes a fault of a receipt.
func fail(r *message.Receipt, f message.Fault, input int) {
	r.Fault, r.FaultyInput, r.Outputs = f, uint32(input), nil
}

// crowd is a net of 3 stages with miners joined.
func crowd(t *testing.T, miners int) *net {
	t.Helper()
	n := newNet(t, 3, nil)
	n.hostile = true
	for i := range miners {
		n.join(i)
	}
	return n
}

// poison makes every tensor of a miner one that is not finite: whoever reads it says so, except that trusts it.
type poison map[string]bool

func (p poison) spoil(r *message.Receipt) {
	for _, out := range r.GetOutputs() {
		out.Hash = message.HashBytes(append([]byte("poison"), out.Hash...))
		p[string(out.Hash)] = true
	}
}

func (p poison) taste(t *message.Task, r *message.Receipt) {
	i := slices.IndexFunc(t.GetInputs(), func(ref *message.BlobRef) bool { return p[string(ref.GetHash())] })
	if isWire(t) && i >= 0 {
		fail(r, message.Fault_NON_FINITE_INPUT, i)
	}
}

// alone returns a miner that has its stage to itself.
func (n *net) alone() int {
	for i, m := range n.core.Miners {
		if n.inStage(m.Stage) == 1 {
			return i
		}
	}
	n.t.Fatal("no stage has one miner")
	return 0
}

func (n *net) inStage(stage int) int {
	count := 0
	for _, m := range n.core.Miners {
		if m.Stage == stage && m.Barred == "" {
			count++
		}
	}
	return count
}

// barred lists the withdrawn miners.
func (n *net) barred() []int {
	var list []int
	for i, m := range n.core.Miners {
		if m.Barred != "" {
			list = append(list, i)
		}
	}
	return list
}

func (n *net) wantBarred(want ...int) {
	n.t.Helper()
	if got := n.barred(); !slices.Equal(got, want) {
		n.t.Errorf("withdrawn are %v, want %v; alerts %v", got, want, n.core.View().Alerts)
	}
}

func TestWhoClaimsOfEveryInputThatItIsOfNoUseIsWithdrawnAlone(t *testing.T) {
	for _, fault := range []message.Fault{message.Fault_NON_FINITE_INPUT, message.Fault_MISSING_INPUT} {
		for liar := range 6 {
			n := crowd(t, 6)
			claims := 0
			n.bend = func(key string, t *message.Task, r *message.Receipt) {
				if key == string(n.core.Miners[liar].Key) && isWire(t) {
					claims++
					fail(r, fault, 0)
				}
			}
			n.run(20_000)
			n.wantBarred(liar)
			c := n.core.Counters
			if c.NonFinite != 0 || c.Refuted < 8 || claims > 16 || n.core.Epoch != 3 {
				t.Errorf("%s: %d charged, %d refuted of %d claims, %d epochs", fault, c.NonFinite, c.Refuted, claims, n.core.Epoch)
			}
		}
	}
}

func TestAMakerIsBlamedWhenTwoMinersAgree(t *testing.T) {
	for maker := range 6 {
		n, p := crowd(t, 6), poison{}
		n.bend = func(key string, t *message.Task, r *message.Receipt) {
			if p.taste(t, r); key == string(n.core.Miners[maker].Key) && isWire(t) {
				p.spoil(r)
			}
		}
		n.run(20_000)
		if n.core.Counters.Refuted != 0 || n.core.Counters.NonFinite < 8 {
			t.Errorf("maker %d: %d charged, %d claims refuted", maker, n.core.Counters.NonFinite, n.core.Counters.Refuted)
		}
		n.wantBarred(maker)
	}
}

func TestARerunBlamesTheMakerOfTheInputThatItNames(t *testing.T) {
	n, p, maker, once := crowd(t, 9), poison{}, -1, 1
	stage := func(key string) int { return n.core.Miners[n.number(key)].Stage }
	n.bend = func(key string, t *message.Task, r *message.Receipt) {
		switch k := t.GetId().GetKind(); {
		case t.GetRerun():
			p.taste(t, r)
		case k == message.TaskKind_FORWARD && stage(key) == 0 && once > 0:
			once--
			maker = n.number(key)
			p.spoil(r) // and its receiver does not mind, but fails afterwards
		case k == message.TaskKind_BACKWARD && stage(key) == 1 && maker >= 0 && len(p) == 1:
			fail(r, message.Fault_FAILED, 0)
		}
	}
	for range 20_000 {
		if n.now++; n.core.Counters.NonFinite > 0 || n.core.Finished {
			break
		}
		n.one()
	}
	for i, m := range n.core.Miners {
		if want := i == maker; (m.Faults > 0) != want {
			t.Errorf("miner %d, in stage %d, has %d faults; miner %d made the activation", i, m.Stage, m.Faults, maker)
		}
	}
	p = poison{}
	maker = -1
	n.run(20_000)
	n.wantBarred()
}

func (n *net) number(key string) int {
	for i, m := range n.core.Miners {
		if string(m.Key) == key {
			return i
		}
	}
	return -1
}

func TestAClaimAgainstAnInputThatATaskDoesNotHaveIsFalse(t *testing.T) {
	n := crowd(t, 6)
	n.bend = func(key string, t *message.Task, r *message.Receipt) {
		if key == string(n.core.Miners[0].Key) && isWire(t) {
			fail(r, message.Fault_NON_FINITE_INPUT, 1<<31)
		}
	}
	n.run(20_000)
	n.wantBarred(0)
}

func TestALiarThatAloneCanJudgeIsWithdrawnForSeveralFalseClaims(t *testing.T) {
	for _, fault := range []message.Fault{message.Fault_NON_FINITE_INPUT, message.Fault_MISSING_INPUT} {
		n := crowd(t, 5)
		liar := n.alone()
		n.bend = func(key string, t *message.Task, r *message.Receipt) {
			if key == string(n.core.Miners[liar].Key) && isWire(t) {
				fail(r, fault, 0)
			}
		}
		for range 2000 {
			n.one()
		}
		n.wantBarred(liar)
		n.join(5)
		n.run(20_000)
		n.wantBarred(liar)
	}
}

func TestAMakerThatOneMinerAloneCanJudgeIsWithdrawn(t *testing.T) {
	n, p := crowd(t, 5), poison{}
	judge := n.alone()
	maker := 0
	for i, m := range n.core.Miners { // a neighbour of the judge
		if d := m.Stage - n.core.Miners[judge].Stage; d == 1 || d == -1 {
			maker = i
		}
	}
	n.bend = func(key string, t *message.Task, r *message.Receipt) {
		if p.taste(t, r); key == string(n.core.Miners[maker].Key) && isWire(t) {
			p.spoil(r)
		}
	}
	n.run(20_000)
	n.wantBarred(maker)
}

func TestALiarAmongSingleMinersCostsOneHonestMinerAtMost(t *testing.T) {
	for liar := range 3 {
		n := crowd(t, 3)
		n.bend = func(key string, t *message.Task, r *message.Receipt) {
			if key == string(n.core.Miners[liar].Key) && isWire(t) && len(t.GetInputs()) > 0 {
				fail(r, message.Fault_NON_FINITE_INPUT, 0)
			}
		}
		for i := 3; i < 7; i++ {
			for range 2000 {
				n.one()
			}
			n.join(i) // takes the place of whoever was withdrawn
		}
		n.run(20_000)
		if list := n.barred(); !slices.Contains(list, liar) || len(list) > 2 {
			t.Errorf("liar %d: withdrawn are %v", liar, list)
		}
	}
}

func TestAClaimEndsWhenNobodyIsLeftForASecondOpinion(t *testing.T) {
	n := crowd(t, 6)
	var claim *message.TaskID
	told := false
	n.bend = func(key string, t *message.Task, r *message.Receipt) {
		switch {
		case claim == nil && isWire(t) && len(t.GetInputs()) > 0:
			claim = t.GetId()
			fail(r, message.Fault_NON_FINITE_INPUT, 0)
		case !told && claim != nil && t.GetId().Key() == claim.Key():
			told = true
			fail(r, message.Fault_FAILED, 0)
		}
	}
	n.run(20_000)
	n.wantBarred()
	if c := n.core.Counters; c.NonFinite+c.Refuted != 0 {
		t.Errorf("%d charged, %d refuted on one word", c.NonFinite, c.Refuted)
	}
	for i, m := range n.core.Miners {
		if len(m.Doubts) != 0 {
			t.Errorf("miner %d is still doubted after good work: %v", i, m.Doubts)
		}
	}
}
