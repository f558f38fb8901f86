package orchestrator_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// audited is a network of so many miners and validators in which everything is replayed.
func audited(t *testing.T, epochs uint32, miners, validators int) *net {
	t.Helper()
	n := newNet(t, epochs, func(r *message.Rules) { r.AuditShare, r.ChallengeWindow = 1, 2 })
	for i := range miners {
		n.join(i)
	}
	for i := range validators {
		n.join(firstValidator + i)
	}
	return n
}

// lie makes validators answer every replay wrongly, by number. Equal words are equal lies.
func (n *net) lie(words map[int]string) {
	n.hostile = true
	n.bend = func(key string, t *message.Task, r *message.Receipt) {
		word := words[int(n.peers[key].session[0])-firstValidator]
		if word == "" || t.GetId().GetKind() != message.TaskKind_REPLAY {
			return
		}
		for _, e := range r.GetReplayed() {
			e.State = message.HashBytes([]byte(word))
		}
	}
}

// finish answers orders until the run is finished, whatever is refused.
func (n *net) finish() orchestrator.View {
	n.t.Helper()
	for i := 0; i < 30_000 && !n.core.View().Finished; i++ {
		n.now += time.Millisecond
		n.one()
	}
	v := n.core.View()
	if !v.Finished {
		n.t.Errorf("not finished: %s of epoch %d, %s", v.Phase, v.Epoch, v.Reason)
	}
	return v
}

// verdicts counts withdrawn validators and the verdicts on miners.
func verdicts(v orchestrator.View) (barred, passed, failed int) {
	for _, w := range v.Validators {
		if w.State == "barred" {
			barred++
		}
	}
	for _, m := range v.Miners {
		passed, failed = passed+int(m.Passed), failed+int(m.Failed)
	}
	return barred, passed, failed
}

func TestOneWordConvictsNobodyAndTwoThatAgreeAreBelieved(t *testing.T) {
	for _, c := range []struct {
		claim      string
		validators int
		lies       map[int]string
		barred     int  // validators
		convicted  bool // honest miners
	}{
		{"honest ones pass everybody", 2, nil, 0, false},
		{"one honest validator is enough", 1, nil, 0, false},
		{"a liar is found by the other one and a miner", 2, map[int]string{0: "a"}, 1, false},
		{"a liar alone is found by two miners", 1, map[int]string{0: "a"}, 1, false},
		{"two that lie differently are both found", 3, map[int]string{0: "a", 1: "b"}, 2, false},
		{"two that lie alike are believed", 2, map[int]string{0: "a", 1: "a"}, 0, true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			n := audited(t, 3, 6, c.validators)
			n.lie(c.lies)
			if c.convicted {
				for i := 0; i < 3000; i++ { // the run has no miners left soon
					n.now += time.Millisecond
					n.one()
				}
			} else {
				n.finish()
			}
			v := n.core.View()
			barred, passed, failed := verdicts(v)
			if barred != c.barred || (failed > 0) != c.convicted || passed == 0 && !c.convicted {
				t.Errorf("%d validators withdrawn, %d verdicts passed, %d failed; alerts %v", barred, passed, failed, v.Alerts)
			}
			if len(v.Evidence) != failed {
				t.Errorf("%d pieces of evidence for %d failed verdicts", len(v.Evidence), failed)
			}
		})
	}
}

func TestAWrongOutputFailsItsMinerAndBurnsItsPay(t *testing.T) {
	n := audited(t, 3, 9, 1)
	n.hostile = true
	liar := n.core.View().Miners[4].Key
	n.bend = func(key string, task *message.Task, r *message.Receipt) {
		k := task.GetId().GetKind()
		if key == string(liar) && (k == message.TaskKind_LOSS || k == message.TaskKind_FORWARD) && len(r.GetOutputs()) > 0 {
			r.Outputs = []*message.BlobRef{message.NewBlob([]byte("noise" + name(r))).Ref()}
		}
	}
	v := n.finish()
	if m := v.Miners[4]; m.Failed != 1 || m.State != "barred" || m.Pay.Earned+m.Pay.Escrow > 0 {
		t.Errorf("the liar has %d failed verdicts, is %s and has %d micro-units", m.Failed, m.State, m.Pay.Earned+m.Pay.Escrow)
	}
	if _, _, failed := verdicts(v); failed != 1 {
		t.Errorf("%d verdicts failed: %v", failed, v.Evidence)
	}
}

func TestNonsenseFromAValidatorAndAMinerDoesNotStopAudits(t *testing.T) {
	for seed := range uint64(8) {
		d := rand.New(rand.NewPCG(seed, 3))
		n := audited(t, 3, 7, 2)
		n.hostile = true
		var liars []string
		for _, m := range n.core.View().Miners[6:] {
			liars = append(liars, string(m.Key))
		}
		for key, p := range n.peers {
			if p.session[0] == firstValidator+1 {
				liars = append(liars, key)
			}
		}
		for i := 0; i < 20_000 && !n.core.View().Finished; i++ {
			n.now += time.Millisecond
			if i%5 == 0 {
				key := liars[d.IntN(len(liars))]
				n.result(n.peers[key], []byte(key), nonsense(d))
			}
			n.one()
		}
		v := n.core.View()
		if !v.Finished {
			t.Errorf("seed %d: not finished: %s of epoch %d, %s", seed, v.Phase, v.Epoch, v.Reason)
		}
		for _, m := range v.Miners[:6] {
			if m.Failed > 0 {
				t.Errorf("seed %d: miner %d failed: %v", seed, m.Number, v.Evidence)
			}
		}
		if _, err := n.core.Snapshot(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

func TestManyDifferentLiesEndNoAuditWhileMinersCanDecideIt(t *testing.T) {
	n, _ := escapee(t, 4, 1, nil)
	for i := range 7 {
		n.join(firstValidator + 1 + i)
	}
	bend := n.bend
	n.bend = func(key string, task *message.Task, r *message.Receipt) {
		bend(key, task, r)
		if n.peers[key].session[0] >= firstValidator { // no two of the eight say the same
			for _, e := range r.GetReplayed() {
				e.State = message.HashBytes([]byte(key))
			}
		}
	}
	v := n.finish()
	if barred, _, _ := verdicts(v); v.Miners[4].Failed == 0 || barred < 5 {
		t.Errorf("%d failed verdicts of the liar, %d validators withdrawn: %v", v.Miners[4].Failed, barred, v.Alerts)
	}
	for i, m := range v.Miners {
		if i != 4 && m.Failed > 0 {
			t.Errorf("miner %d failed: %v", m.Number, v.Evidence)
		}
	}
}

func TestValidatorsThatAreGoneOrWithdrawnFreeTheirPlaces(t *testing.T) {
	n := newNet(t, 3, func(r *message.Rules) { r.AuditShare, r.ChallengeWindow = 1, 2 })
	key := func(i int) []byte { return append(make([]byte, 30), byte(i>>8), byte(i)) }
	session := make([]byte, 16)
	register := func(i int) {
		n.send(&message.Event{Miner: key(i), Kind: &message.Event_Register{Register: &message.Register{Session: session, Numerics: "test", Role: message.Role_VALIDATOR}}})
	}
	for i := range 300 {
		register(i)
	}
	if have := len(n.core.View().Validators); have != 256 {
		t.Fatalf("%d validators, the bound is 256", have)
	}
	n.send(&message.Event{Miner: key(7), Kind: &message.Event_Gone{Gone: &message.Gone{Session: session}}})
	register(300)
	if v := n.core.View().Validators; v[7].Number != 8 {
		t.Error("a lost connection costs a validator its place at once")
	}
	n.now += time.Hour
	register(301)
	v := n.core.View().Validators
	if len(v) != 256 || v[7].Number != 9 || v[255].Number != 257 {
		t.Errorf("%d validators, the last is number %d", len(v), v[len(v)-1].Number)
	}
}

func TestTheRunsEndPaysNobodyWhomAnAnswerSpeaksAgainst(t *testing.T) {
	n := audited(t, 3, 6, 1)
	n.lie(map[int]string{0: "a"})
	var miners []string
	for _, m := range n.core.View().Miners {
		miners = append(miners, string(m.Key))
	}
	n.without(func(to string, t *message.Task) bool { return replay(to, t) && slices.Contains(miners, to) })
	if l := n.core.View().Ledger; l.Paid > 0 || l.Escrow > 0 {
		t.Errorf("%d paid, %d in escrow", l.Paid, l.Escrow)
	}
}
