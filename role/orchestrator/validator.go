package orchestrator

import (
	"bytes"
	"slices"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// validator is what the core knows of the key of one. It has no stage and no state: it replays one log at a time.
type validator struct {
	Number     int // from 0
	Key        []byte
	Session    []byte
	Connected  bool
	Barred     string // why it may not come back
	Log        []byte // hash of the newest receipt of this session
	Replays    uint64 // answers that others or the log confirmed
	Mismatches uint64 // replays of it that found a miner's log wrong, and were confirmed
	Wrong      uint64 // answers that were not confirmed: two others agreed on another one
	Units      float64
	Gone       time.Duration // since when it has no stream
	Unanswered int           // leases in a row that ran out
}

// Bounds of validators.
const (
	maxValidators = 256 // in the run at once
	maxExpired    = 3   // leases in a row, until a validator that says nothing counts as gone
)

// registerValidator opens or resumes a validator's session. It is told again what it has to replay only if its process
// still lives; a new one begins with nothing.
func (o *Orchestrator) registerValidator(key []byte, r *message.Register) {
	v := o.validator(key)
	if reason := o.admitValidator(v, key, r); reason != "" {
		o.turnAway(key, reason)
		return
	}
	resumed := v != nil && r.GetHolding() && bytes.Equal(v.Session, r.GetSession())
	if v == nil {
		o.freePlace()
		o.Admitted++
		v = &validator{Number: o.Admitted - 1, Key: bytes.Clone(key)}
		o.Validators = append(o.Validators, v)
	}
	if !resumed {
		o.freeJudge(v.judge())
		v.Session, v.Log = bytes.Clone(r.GetSession()), nil
	}
	v.Connected = true
	o.tell(v, &message.Order{Kind: &message.Order_Welcome{Welcome: &message.Welcome{Manifest: message.Encode(o.manifest), Log: v.Log}}})
	if o.Finished {
		o.tell(v, &message.Order{Kind: &message.Order_Finished{Finished: &message.Finished{Reason: o.Reason}}})
		return
	}
	o.remindJudge(v.judge())
}

func (o *Orchestrator) admitValidator(v *validator, key []byte, r *message.Register) string {
	switch {
	case r.GetNumerics() != o.manifest.GetNumerics():
		return "this run needs numerics " + o.manifest.GetNumerics() + ", yours is " + r.GetNumerics() + ": use the matching release"
	case len(r.GetSession()) != 16:
		return "a session is 16 random bytes"
	case o.find(key) != nil:
		return "this key is a miner's: join with another one"
	case v != nil && v.Barred != "":
		return v.Barred
	case v == nil && o.Books.Ledger.Find(key).Failed:
		return "this key was withdrawn: join with a new one"
	case v == nil && len(o.Validators) >= maxValidators && o.placeToFree() < 0:
		return "the run has enough validators: try again when some have left"
	}
	return ""
}

// placeToFree is the place of a validator that was withdrawn, or has been gone for longer than a lost connection takes to
// come back, and has no part in an open audit; -1 without one.
func (o *Orchestrator) placeToFree() int {
	return slices.IndexFunc(o.Validators, func(v *validator) bool {
		gone := v.Barred != "" || !v.Connected && o.Now >= v.Gone+time.Duration(o.rules.GetReconnect())
		return gone && !slices.ContainsFunc(o.Audits, func(a *audit) bool { return a.knows(v.judge()) })
	})
}

// freePlace forgets one such validator where there are as many as a run takes. What it is paid the ledger knows, and that
// it was withdrawn.
func (o *Orchestrator) freePlace() {
	if i := o.placeToFree(); i >= 0 && len(o.Validators) >= maxValidators {
		o.Validators = slices.Delete(o.Validators, i, i+1)
	}
}

// validatorOf returns the validator that a judge is. One with a part in an open audit is never forgotten.
func (o *Orchestrator) validatorOf(j judge) *validator {
	return o.Validators[slices.IndexFunc(o.Validators, func(v *validator) bool { return v.Number == j.Number })]
}

// silent counts a lease that ran out. A validator that lets several do so in a row is told, and counts as gone until it
// registers again: it would keep audits from others.
func (o *Orchestrator) silent(j judge) {
	if !j.Validator {
		return
	}
	v := o.validatorOf(j)
	if v.Unanswered++; v.Unanswered >= maxExpired && v.Connected {
		o.alert("validator %d (%s) lets its replays run out: others do them", v.Number+1, message.Short(v.Key))
		o.tell(v, &message.Order{Kind: &message.Order_Finished{Finished: &message.Finished{
			Reason: "your replays take longer than an epoch may: use a faster machine, then join again"}}})
		o.validatorGone(v, v.Session)
	}
}

// validator returns that of a key, or nil.
func (o *Orchestrator) validator(key []byte) *validator {
	i := slices.IndexFunc(o.Validators, func(v *validator) bool { return bytes.Equal(v.Key, key) })
	if i < 0 {
		return nil
	}
	return o.Validators[i]
}

// tell sends an order to a validator.
func (o *Orchestrator) tell(v *validator, order *message.Order) {
	if v.Connected {
		o.out = append(o.out, &message.Outbound{To: v.Key, Order: order})
	}
}

// validatorGone is the end of a validator's stream: what it had to replay is given to another one at once, and costs
// nobody anything.
func (o *Orchestrator) validatorGone(v *validator, session []byte) {
	if !bytes.Equal(v.Session, session) {
		return
	}
	v.Connected, v.Gone = false, o.Now
	o.freeJudge(v.judge())
}

// validatorResult takes in a validator's receipt. One that does not extend its log was had already, or is of an older
// process.
func (o *Orchestrator) validatorResult(v *validator, raw []byte, r *message.Receipt) {
	if !bytes.Equal(v.Session, r.GetSession()) || !bytes.Equal(r.GetPrevious(), v.Log) {
		return
	}
	v.Log, v.Unanswered = message.HashBytes(raw), 0
	if bytes.Equal(r.GetManifest(), o.hash) && r.GetNumerics() == o.manifest.GetNumerics() {
		o.replayed(v.judge(), r)
	}
}

// barValidator ends a validator's part in the run. What it was to be paid is lost.
func (o *Orchestrator) barValidator(v *validator, reason string) {
	if v.Barred != "" {
		return
	}
	v.Barred, v.Units = plain(reason), 0
	o.Counters.Kicked++
	o.alert("validator %d (%s) was withdrawn: %s", v.Number+1, message.Short(v.Key), v.Barred)
	o.tell(v, &message.Order{Kind: &message.Order_Finished{Finished: &message.Finished{Reason: v.Barred}}})
	v.Connected = false
	o.freeJudge(v.judge())
	o.burn(v.Key, reason)
}

// validated reports whether a validator has a part in the run: without one nothing is drawn, and no dice are cast.
func (o *Orchestrator) validated() bool {
	return slices.ContainsFunc(o.Validators, func(v *validator) bool { return v.Barred == "" })
}

// restartValidators is their part in a restart of the orchestrator: nobody has a stream yet, and what they replay goes on.
func (o *Orchestrator) restartValidators(again time.Duration) {
	for _, v := range o.Validators {
		v.Connected, v.Gone = false, o.Now
	}
	for _, a := range o.Audits {
		for i := range a.Leases {
			a.Leases[i].Until = max(a.Leases[i].Until, o.Now+again)
		}
	}
}
