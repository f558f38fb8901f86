package orchestrator_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// lossy makes losses that depend on who made the activations: 3 nats, some noise, and what the miners of a pathway add.
type lossy struct {
	net    *net
	dice   *rand.Rand
	adds   map[string]float64 // nats, by key
	fails  string             // a key whose miner cannot do every second forward
	tried  int
	makers map[uint64][]string // of a micro-batch's activations, by stage
}

func newLossy(t *testing.T, miners int, epochs uint32) *lossy {
	l := &lossy{dice: rand.New(rand.NewPCG(1, 1)), adds: map[string]float64{}, makers: map[uint64][]string{}}
	l.net = newNet(t, epochs, func(r *message.Rules) { r.InnerSteps = 16 })
	l.net.bend = l.bend
	for i := range miners {
		l.net.join(i)
	}
	return l
}

func (l *lossy) bend(key string, t *message.Task, r *message.Receipt) {
	id := t.GetId()
	switch id.GetKind() {
	case message.TaskKind_FORWARD:
		if key == l.fails {
			if l.tried++; l.tried%2 == 0 {
				r.Fault, r.Note, r.Outputs, r.LossBits = message.Fault_FAILED, "so the test says", nil, 0
				return
			}
		}
		if l.makers[id.GetBatch()] == nil {
			l.makers[id.GetBatch()] = make([]string, 3)
		}
		l.makers[id.GetBatch()][id.GetStage()] = key
	case message.TaskKind_LOSS:
		loss := 3 + 0.2*l.dice.NormFloat64() + l.adds[key]
		for _, maker := range l.makers[id.GetBatch()] {
			loss += l.adds[maker]
		}
		r.LossBits = math.Float64bits(loss)
	}
}

// of returns the miners of a stage, in order of registration.
func (l *lossy) of(stage int) []orchestrator.MinerView {
	var list []orchestrator.MinerView
	for _, m := range l.net.core.View().Miners {
		if m.Stage == stage {
			list = append(list, m)
		}
	}
	return list
}

func TestAMinerThatSpoilsItsPathwaysIsFlaggedAndGoesOn(t *testing.T) {
	for stage := range 3 {
		l := newLossy(t, 12, 6)
		bad, other := l.of(stage)[1], l.of(stage)[2]
		l.adds[string(bad.Key)] = 0.5
		if stage < 2 {
			l.fails = string(other.Key) // its work is then another's, who may be the bad one
		}
		l.net.run(40_000)
		v := l.net.core.View()
		for _, m := range v.Miners {
			if m.Clasp.Flagged != (m.Number == bad.Number) || m.Clasp.Peers == 0 || m.State == "barred" {
				t.Errorf("stage %d, miner %d is %s: %+v", stage, m.Number, m.State, m.Clasp)
			}
			if m.Number == bad.Number && math.Abs(m.Clasp.Effect-0.5) > 4*m.Clasp.Error {
				t.Errorf("stage %d: effect %+v", stage, m.Clasp)
			}
		}
		told := 0
		for _, a := range v.Alerts {
			if strings.Contains(a.Text, "is flagged") {
				told++
			}
		}
		if told > 1 || told == 0 && l.fails == "" { // failures fill the list
			t.Errorf("stage %d: %d alerts of one flag", stage, told)
		}
		for _, s := range v.Stages {
			if s.Merged != s.Acknowledged {
				t.Errorf("stage %d: %d of %d merged", s.Index, s.Merged, s.Acknowledged)
			}
		}
		l.net.replay()
	}
}

func TestANewProcessOfAFlaggedKeyIsStillFlagged(t *testing.T) {
	l := newLossy(t, 9, 8)
	bad := l.of(1)[0]
	l.adds[string(bad.Key)] = 0.5
	flagged := func() bool { return l.net.core.View().Miners[bad.Number-1].Clasp.Flagged }
	for range 40_000 {
		if l.net.now++; flagged() {
			break
		}
		l.net.one()
	}
	if !flagged() {
		t.Fatal("never flagged")
	}
	l.net.hostile = true // what the old process had is refused
	p := l.net.peers[string(bad.Key)]
	p.session, p.log, p.pending = bytes.Repeat([]byte{99}, 16), nil, nil
	l.net.send(&message.Event{Miner: bad.Key, Kind: &message.Event_Register{Register: &message.Register{
		Session: p.session, Numerics: "test"}}})
	if !flagged() {
		t.Error("a new process took the flag away")
	}
	l.net.run(40_000)
	if !flagged() {
		t.Error("the next evaluation took the flag away")
	}
	l.net.replay()
}
