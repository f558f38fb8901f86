package orchestrator_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
	"github.com/iota-train/iota/role/orchestrator"
)

// peer answers every order at once with made-up hashes: the core never looks inside a tensor.
type peer struct {
	key     ed25519.PrivateKey
	session []byte
	log     []byte
	epoch   uint64
	pending []*message.Summed
	step    uint64
}

// net is a core with peers that answer in order, one order per millisecond.
type net struct {
	t       testing.TB
	core    *orchestrator.Orchestrator
	m       *message.Manifest
	secret  [32]byte
	now     time.Duration
	peers   map[string]*peer
	orders  []*message.Outbound
	hostile bool                                                  // refusals are to be expected
	bend    func(key string, t *message.Task, r *message.Receipt) // what a liar makes of its answers, if set
	events  []event
	pages   [][]byte                    // of the ledger
	true    map[string]*message.Receipt // what honest work gives, by task and attempt
}

type event struct {
	now time.Duration
	in  *message.Event
	out []byte
}

func newNet(t testing.TB, epochs uint32, change func(*message.Rules)) *net {
	t.Helper()
	shape, err := model.Preset("nano")
	if err != nil {
		t.Fatal(err)
	}
	if shape, err = shape.WithStages(3); err != nil {
		t.Fatal(err)
	}
	m := &message.Manifest{Run: "test", Model: manifest.Model(shape), Data: &message.Data{Seed: 1},
		Rules: manifest.DefaultRules(), Numerics: "test", Preset: "nano"}
	m.Rules.InnerSteps, m.Rules.Epochs = 4, epochs
	if change != nil {
		change(m.Rules)
	}
	n := &net{t: t, m: m, secret: [32]byte{1}, peers: map[string]*peer{}, true: map[string]*message.Receipt{}}
	if n.core, err = orchestrator.New(m, n.secret); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *net) send(in *message.Event) {
	n.t.Helper()
	out, err := n.core.Step(n.now, in)
	if err != nil {
		n.t.Fatal(err)
	}
	n.events = append(n.events, event{n.now, in, encode(out)})
	n.orders = append(n.orders, out...)
	for _, o := range out {
		if o.GetLedger() != nil {
			n.pages = append(n.pages, o.GetLedger())
		}
	}
}

func encode(out []*message.Outbound) []byte {
	var b []byte
	for _, o := range out {
		b = append(b, message.Encode(o)...)
	}
	return b
}

func (n *net) join(i int) {
	seed := make([]byte, 32)
	seed[0] = byte(i)
	key := ed25519.NewKeyFromSeed(seed)
	p := &peer{key: key, session: bytes.Repeat([]byte{byte(i)}, 16)}
	public := key.Public().(ed25519.PublicKey)
	n.peers[string(public)] = p
	n.send(&message.Event{Miner: public, Kind: &message.Event_Register{Register: &message.Register{
		Session: p.session, Numerics: "test", Role: role(i)}}})
}

// firstValidator is the number of the first peer that is a validator.
const firstValidator = 200

func role(i int) message.Role {
	if i >= firstValidator {
		return message.Role_VALIDATOR
	}
	return message.Role_MINER
}

// run answers orders until the run is finished.
func (n *net) run(steps int) {
	n.t.Helper()
	for range steps {
		if n.core.View().Finished {
			return
		}
		n.now += time.Millisecond
		n.one()
	}
	v := n.core.View()
	n.t.Fatalf("not finished after %d steps: %s of epoch %d, %s, %d in flight, alerts %v", steps, v.Phase, v.Epoch, v.Reason, v.InFlight, v.Alerts)
}

// one has one order carried out, or lets time pass.
func (n *net) one() {
	n.t.Helper()
	if len(n.orders) == 0 {
		n.now += 100 * time.Millisecond
		n.send(&message.Event{Kind: &message.Event_Tick{Tick: &message.Tick{}}})
		return
	}
	o := n.orders[0]
	n.orders = n.orders[1:]
	if p := n.peers[string(o.GetTo())]; p != nil {
		n.obey(p, o)
	}
}

func (n *net) obey(p *peer, o *message.Outbound) {
	switch kind := o.GetOrder().GetKind().(type) {
	case *message.Order_Task:
		r := n.answer(p, kind.Task)
		n.true[name(r)] = proto.Clone(r).(*message.Receipt)
		if n.bend != nil {
			n.bend(string(o.GetTo()), kind.Task, r)
		}
		n.result(p, o.GetTo(), r)
	case *message.Order_Ack:
		p.pending = append(p.pending, &message.Summed{Batch: kind.Ack.GetTask().GetBatch(), Attempt: kind.Ack.GetAttempt()})
		if len(p.pending) == int(n.m.Rules.MicroBatchesPerStep) {
			r := &message.Receipt{Task: &message.TaskID{Kind: message.TaskKind_STEP, Epoch: p.epoch, Batch: p.step}, Summed: p.pending,
				Attempt: uint32(p.session[0])}
			n.true[name(r)] = proto.Clone(r).(*message.Receipt)
			p.pending = nil
			p.step++
			n.result(p, o.GetTo(), r)
		}
	case *message.Order_Refusal:
		if n.hostile {
			return
		}
		n.t.Errorf("refused: %s", kind.Refusal.GetReason())
	}
}

// answer makes outputs that depend on the task alone, so that replicas agree.
func (n *net) answer(p *peer, t *message.Task) *message.Receipt {
	r := &message.Receipt{Task: t.GetId(), Attempt: t.GetAttempt(), LossBits: math.Float64bits(2)}
	p.epoch = t.GetId().GetEpoch()
	r.Rerun, r.Passing, r.RateBits, r.Weights = t.GetRerun(), t.GetPassing(), t.GetRateBits(), t.GetWeights()
	for _, in := range t.GetInputs() {
		r.Inputs = append(r.Inputs, in.GetHash())
	}
	if r.ReadsTokens() {
		r.Inputs = append([][]byte{[]byte("tokens")}, r.Inputs...)
	}
	blob := fmt.Sprint(t.GetId().Key())
	outputs := 1
	if t.GetId().GetKind() != message.TaskKind_REDUCE {
		r.Plan = t.GetPlan()
	}
	switch id := t.GetId(); id.GetKind() {
	case message.TaskKind_BACKWARD:
		outputs = int(min(1, id.GetStage()))
	case message.TaskKind_EVALUATE:
		if id.GetStage() == 2 {
			outputs = 0
		}
	case message.TaskKind_SHARE:
		outputs = len(t.GetPlan().GetFirst())
		blob += string(p.session)
	case message.TaskKind_CLOSE:
		outputs = 0
	case message.TaskKind_REPLAY:
		outputs = 0
		n.judge(t, r)
	case message.TaskKind_LOAD:
		blob = fmt.Sprint("checkpoint", id.GetStage(), id.GetEpoch())
		if len(t.GetInputs()) > 0 {
			r.Outputs, outputs = t.GetInputs(), 0
		}
	case message.TaskKind_INSTALL:
		blob = fmt.Sprint("checkpoint", id.GetStage(), id.GetEpoch()+1)
	case message.TaskKind_UPLOAD:
		blob = fmt.Sprint("checkpoint", id.GetStage(), id.GetEpoch()+1)
	case message.TaskKind_REDUCE:
		bounds, i := t.GetPlan().GetBounds(), id.GetShard()
		r.Elements = bounds[i+1] - bounds[i]
		for range t.GetInputs() {
			r.Sources = append(r.Sources, &message.SourceStats{Finite: true})
		}
	}
	for i := range outputs {
		r.Outputs = append(r.Outputs, message.NewBlob([]byte(fmt.Sprint(blob, i))).Ref())
	}
	return r
}

// name tells receipts apart.
func name(r *message.Receipt) string { return fmt.Sprintf("%#v %d", r.GetTask().Key(), r.GetAttempt()) }

// judge answers a REPLAY truthfully: with what the miners' honest work gave.
func (n *net) judge(t *message.Task, r *message.Receipt) {
	for i, ordered := range t.GetLog() {
		found := n.true[name(ordered)]
		if ordered.GetTask().GetKind() == message.TaskKind_REDUCE && len(t.GetLog()) == 1 {
			for _, other := range n.true {
				if other.GetTask().Key() == ordered.GetTask().Key() {
					found = proto.Clone(other).(*message.Receipt)
					found.Attempt = 0
				}
			}
		}
		r.Replayed = append(r.Replayed, found.Essence(i))
	}
}

func (n *net) result(p *peer, key []byte, r *message.Receipt) {
	r.Manifest, r.Session, r.Previous, r.Numerics = message.Hash(n.m), p.session, p.log, "test"
	res := message.Sign(p.key, r)
	p.log = message.HashBytes(res.GetReceipt())
	n.send(&message.Event{Miner: key, Kind: &message.Event_Result{Result: res}})
}

func TestACleanRunMergesEverythingItAcknowledges(t *testing.T) {
	n := newNet(t, 4, nil)
	for i := range 6 {
		n.join(i)
	}
	n.run(20_000)
	v := n.core.View()
	if v.Epoch != 4 || len(v.Epochs) != 4 || v.Counters.EvalCount != 64 || v.Counters.LossEval != 2 {
		t.Errorf("epoch %d, %d reports, %d held-out losses of %v", v.Epoch, len(v.Epochs), v.Counters.EvalCount, v.Counters.LossEval)
	}
	for _, s := range v.Stages {
		if s.Merged+s.Unmerged != s.Acknowledged || s.Unmerged != 0 {
			t.Errorf("stage %d: %d merged, %d unmerged of %d", s.Index, s.Merged, s.Unmerged, s.Acknowledged)
		}
	}
	c := v.Counters
	if c.ShardsLost+c.Disagreements+c.LeasesExpired+c.RefusedLate+c.NonFinite != 0 || len(v.Alerts) != 0 {
		t.Errorf("faults in a clean run: %+v, %v", c, v.Alerts)
	}
}

func TestTheSameEventsGiveTheSameMessagesAcrossASnapshot(t *testing.T) {
	n := newNet(t, 3, nil)
	for i := range 6 {
		n.join(i)
	}
	n.run(20_000)
	n.replay()
}

// replay fails unless the events give the same messages once more, across snapshots.
func (n *net) replay() {
	t := n.t
	t.Helper()
	again, err := orchestrator.New(n.m, n.secret)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range n.events {
		if i%97 == 96 { // take the state through a snapshot now and then
			b, err := again.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			if again, err = orchestrator.New(n.m, n.secret); err != nil {
				t.Fatal(err)
			}
			if err := again.Restore(b); err != nil {
				t.Fatal(err)
			}
		}
		out, err := again.Step(e.now, proto.Clone(e.in).(*message.Event))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encode(out), e.out) {
			t.Fatalf("event %d gave other messages", i)
		}
	}
}
