// Package orchestrator is the deterministic core of a run: one state machine that registers miners, gives them stages,
// routes micro-batches, decides when to merge, and follows the merge to its end.
//
// The driver's loop is all there is to it:
//
//	o, _ := orchestrator.New(manifest, secret)
//	for event := range events {
//		out, err := o.Step(now, event)   // journal the event, wait until it is durable,
//		...                              // then send what came out
//	}
//
// Step has no clock, no goroutine and no randomness but the generator in its state: the same events give the same
// messages, bit for bit, so the journal of events is the whole memory of a run. One file holds one step of an epoch:
// register, assign, route, result, lease, claim, clasp, trigger, share, reduce, settle, install, emit, evaluate; and then
// draw, pursue, judge, verdict, proof for the audits. leave lets miners go.
package orchestrator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"

	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/clasp"
	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// Orchestrator is the state machine of one run. It is not safe for concurrent use.
type Orchestrator struct {
	manifest *message.Manifest
	hash     []byte // of the manifest
	rules    *message.Rules
	shape    model.Config
	rng      *rand.ChaCha8
	dice     *rand.Rand // draws from rng

	state
	out []*message.Outbound // of the running Step
}

// New returns the core at the start of a run. The secret decides wiring, plans and arbiters; whoever knows it can
// predict them. It returns an error if the manifest contradicts itself.
func New(m *message.Manifest, secret [32]byte) (*Orchestrator, error) {
	shape := manifest.Shape(m)
	if err := manifest.Check(m); err != nil {
		return nil, err
	}
	o := &Orchestrator{manifest: m, hash: message.Hash(m), rules: m.GetRules(), shape: shape}
	o.rng = rand.NewChaCha8(secret)
	o.dice = rand.New(o.rng)
	o.Acked = map[uint64][]bool{}
	o.Blobs = map[string]blob{}
	o.Clasp = clasp.NewWindow(shape.Stages(), claspWindow)
	for s := range shape.Stages() {
		o.Stages = append(o.Stages, &stage{Index: s, Cost: float64(shape.Cost(s)), Weights: uint64(shape.StageSize(s))})
	}
	o.Books.Ledger = ledger.New(o.hash)
	o.RateBits = math.Float32bits(manifest.Rate(o.rules, o.threshold()*uint64(shape.Rows()), 0))
	o.startWaiting("waiting for a miner in every stage")
	return o, nil
}

// Step takes in one event at run time now and returns what is to be sent, in order. The messages may leave only after
// the event is durable. An error means that the event was impossible, not that a participant misbehaved: such an event
// changes nothing and must not be journalled. now never runs backwards; an earlier value counts as the last one.
func (o *Orchestrator) Step(now time.Duration, in *message.Event) ([]*message.Outbound, error) {
	o.out = nil
	o.Now = max(o.Now, now)
	if err := o.handle(in); err != nil {
		return nil, err
	}
	o.advance()
	out := o.out
	o.out = nil
	return out, nil
}

func (o *Orchestrator) handle(in *message.Event) error {
	if v := o.validator(in.GetMiner()); v != nil || in.GetRegister().GetRole() == message.Role_VALIDATOR {
		return o.handleValidator(v, in)
	}
	switch kind := in.GetKind().(type) {
	case *message.Event_Tick:
	case *message.Event_Restarted:
		o.restarted()
	case *message.Event_Stop:
		o.stop(kind.Stop.GetAtOnce())
	case *message.Event_Register:
		o.register(in.GetMiner(), kind.Register)
	case *message.Event_Gone:
		if m := o.session(in.GetMiner(), kind.Gone.GetSession()); m != nil {
			o.gone(m)
		}
	case *message.Event_Heartbeat:
		if m := o.session(in.GetMiner(), kind.Heartbeat.GetSession()); m != nil {
			o.heartbeat(m, kind.Heartbeat)
		}
	case *message.Event_Result:
		return o.result(in.GetMiner(), kind.Result)
	default:
		return fmt.Errorf("event of unknown kind %T", kind)
	}
	return nil
}

// advance does everything that the event and the time made possible.
func (o *Orchestrator) advance() {
	o.expireSilence()
	o.expireLeases()
	o.closeClaims()
	for o.turn() {
	}
	o.offerStages()
	o.route()
	o.pursueAudits()
	o.letGo()
}

// handleValidator takes in an event of a validator, nil for one that registers for the first time.
func (o *Orchestrator) handleValidator(v *validator, in *message.Event) error {
	switch kind := in.GetKind().(type) {
	case *message.Event_Register:
		if kind.Register.GetRole() != message.Role_VALIDATOR {
			o.turnAway(in.GetMiner(), "this key is a validator's: join with another one")
			return nil
		}
		o.registerValidator(in.GetMiner(), kind.Register)
	case *message.Event_Gone:
		o.validatorGone(v, kind.Gone.GetSession())
	case *message.Event_Heartbeat:
	case *message.Event_Result:
		r, err := kind.Result.Open()
		if err != nil {
			return fmt.Errorf("result of a validator: %w", err)
		}
		o.validatorResult(v, kind.Result.GetReceipt(), r)
	default:
		return fmt.Errorf("event of unknown kind %T", kind)
	}
	return nil
}

// turn checks whether the phase is over and reports whether it moved on.
func (o *Orchestrator) turn() bool {
	if o.Finished {
		return false
	}
	switch o.Phase {
	case Waiting:
		return o.leaveWaiting()
	case Training:
		return o.leaveTraining()
	case Sharing:
		return o.leaveSharing()
	case Reducing:
		return o.leaveReducing()
	case Installing:
		return o.leaveInstalling()
	}
	return false
}

// enter begins a phase that ends, at the latest, after the given time.
func (o *Orchestrator) enter(p Phase, limit time.Duration, reason string) {
	o.Phase, o.Since, o.Until, o.Reason = p, o.Now, o.Now+limit, reason
	o.Draining = false
}

// send queues an order for a miner. A miner without a stream gets its standing orders again when it is back.
func (o *Orchestrator) send(m *miner, order *message.Order) {
	if m.Connected {
		o.out = append(o.out, &message.Outbound{To: m.Key, Order: order})
	}
}

func (o *Orchestrator) sendTask(m *miner, t *message.Task) {
	o.send(m, &message.Order{Kind: &message.Order_Task{Task: t}})
}

func (o *Orchestrator) refuse(m *miner, r *message.Receipt, reason string) {
	o.send(m, &message.Order{Kind: &message.Order_Refusal{Refusal: &message.Refusal{
		Task: r.GetTask(), Attempt: r.GetAttempt(), Reason: reason,
	}}})
}

// alert keeps a line for the operator; only the newest few stay.
func (o *Orchestrator) alert(format string, args ...any) {
	const kept = 20
	o.Alerts = append(o.Alerts, Alert{At: o.Now, Text: plain(fmt.Sprintf(format, args...))})
	if n := len(o.Alerts); n > kept {
		o.Alerts = append([]Alert(nil), o.Alerts[n-kept:]...)
	}
}

// plain makes one short line of a text that a miner may have written: it is kept in the state and shown on a terminal.
func plain(text string) string {
	const most = 400 // characters
	n := 0
	return strings.Map(func(r rune) rune {
		if n++; n > most {
			return -1
		}
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// stop ends the run after the running epoch, or at once.
func (o *Orchestrator) stop(atOnce bool) {
	o.Stopping = true
	if atOnce && !o.Finished {
		o.cancelFlights()
		o.finish("stopped")
	}
}

// finish ends the run: every miner is told, nothing is ordered any more.
func (o *Orchestrator) finish(reason string) {
	o.enter(Waiting, 0, "finished: "+reason)
	o.Finished = true
	o.endBooks()
	for _, m := range o.Miners {
		o.send(m, &message.Order{Kind: &message.Order_Finished{Finished: &message.Finished{Reason: reason}}})
	}
	for _, v := range o.Validators {
		o.tell(v, &message.Order{Kind: &message.Order_Finished{Finished: &message.Finished{Reason: reason}}})
	}
}
