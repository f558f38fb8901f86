// Package adversary holds miners that misbehave. Each wraps an honest worker: what the protocol demands is done, and
// then some of the results are changed, signed anew with the miner's own key, and chained so that the log still holds.
// So every lie is one that the orchestrator cannot see in the envelope, and has to find in the work.
package adversary

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// Worker does a miner's tasks. It is what edge/node and sim drive.
type Worker interface {
	// Do does one task. An input that could not be had is nil. A nil result says that the order was ignored.
	Do(t *message.Task, inputs [][]byte) (*message.Result, []message.Blob, error)
	// Acknowledge lets a gradient into the sum and returns the results of the inner step that this may set off.
	Acknowledge(a *message.Ack) ([]*message.Result, error)
	// Drop frees what is held for an attempt, and with a nil id all that is held for unfinished micro-batches.
	Drop(id *message.TaskID, attempt uint32)
	// AcksSeen is the number of the last acknowledgement of this epoch.
	AcksSeen() uint64
	// Save returns the private state that a restarted miner resumes.
	Save() []byte
}

// Kinds lists the kinds of misbehaviour that Wrap knows.
func Kinds() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// OfValidators reports whether a kind of that name is a validator's; the others are a miner's.
func OfValidators(name string) bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return k.name == name && k.answer != nil })
}

// Wrap returns w misbehaving in one of the Kinds, in the given share of the tasks that the kind concerns (0 to 1). The
// manifest says how tensors are encoded; key is the miner's own, accomplices are the keys of others who do the same; equal
// seeds misbehave alike.
func Wrap(m *message.Manifest, kind string, rate float64, seed uint64, key ed25519.PrivateKey, w Worker, accomplices ...[]byte) (Worker, error) {
	a := New(m, key, w)
	if len(accomplices) > 0 {
		a.Conspire(accomplices...)
	}
	if err := a.Always(kind, rate, seed); err != nil {
		return nil, err
	}
	return a, nil
}

// Adversary is a wrapped worker with a list of misbehaviours, at first none: then it passes everything on unchanged.
type Adversary struct {
	manifest *message.Manifest
	key      ed25519.PrivateKey
	worker   Worker
	rules    []*rule

	accomplices [][]byte // keys, the own one included

	forked   bool   // its log differs from the worker's
	previous []byte // hash of its newest receipt, once it is forked
	changed  []change
	last     map[message.TaskKind][]message.Blob // true outputs of the newest task, for stale ones
	loot     loot                                // of others, for copied ones
}

// rule is one misbehaviour.
type rule struct {
	kind
	rate  float64
	left  int // times, negative: without end
	tasks []message.TaskKind
	dice  *rand.Rand
	seed  uint64
}

// change remembers what became of a worker's result, which it may give again.
type change struct {
	from    string // hash of the worker's receipt
	result  *message.Result
	outputs []message.Blob
}

// keptChanges is more than a worker keeps results for tasks that are sent again.
const keptChanges = 256

// New returns w wrapped, as yet honest.
func New(m *message.Manifest, key ed25519.PrivateKey, w Worker) *Adversary {
	return &Adversary{manifest: m, key: key, worker: w, last: map[message.TaskKind][]message.Blob{}}
}

// Always misbehaves from now on in a share of the tasks.
func (a *Adversary) Always(kind string, rate float64, seed uint64) error {
	return a.add(kind, rate, -1, seed, nil)
}

// Times misbehaves in the next n tasks of the given kinds, of those that the misbehaviour concerns if none is given.
func (a *Adversary) Times(kind string, n int, seed uint64, tasks ...message.TaskKind) error {
	return a.add(kind, 1, n, seed, tasks)
}

func (a *Adversary) add(name string, rate float64, n int, seed uint64, tasks []message.TaskKind) error {
	i := slices.IndexFunc(slices.Concat(kinds, injected), func(k kind) bool { return k.name == name })
	if i < 0 {
		return fmt.Errorf("adversary %q: use %s", name, strings.Join(Kinds(), ", "))
	}
	if !(rate >= 0 && rate <= 1) {
		return fmt.Errorf("adversary %q: the rate is a share from 0 to 1, not %v", name, rate)
	}
	k := slices.Concat(kinds, injected)[i]
	if len(tasks) == 0 {
		tasks = k.tasks
	}
	var s [32]byte
	binary.LittleEndian.PutUint64(s[:], seed)
	a.rules = append(a.rules, &rule{kind: k, rate: rate, left: n, tasks: tasks, dice: rand.New(rand.NewChaCha8(s)), seed: seed})
	return nil
}

// Conspire names the keys of accomplices. Without any, joint misbehaviour acts on every task that it concerns.
func (a *Adversary) Conspire(keys ...[]byte) {
	a.accomplices = append(keys, a.key.Public().(ed25519.PublicKey))
}

// draw returns the first misbehaviour that acts on a task now, or nil.
func (a *Adversary) draw(t *message.Task) *rule {
	for _, r := range a.rules {
		if r.left == 0 || !slices.Contains(r.tasks, t.GetId().GetKind()) || r.joint && !a.unseen(t) {
			continue
		}
		dice := r.dice
		if r.joint {
			dice = a.ofTask(t.GetId())
		}
		if dice.Float64() >= r.rate {
			continue
		}
		if r.left > 0 {
			r.left--
		}
		return r
	}
	return nil
}

// unseen reports whether a shard belongs to accomplices only.
func (a *Adversary) unseen(t *message.Task) bool {
	p, i := t.GetPlan(), int(t.GetId().GetShard())
	if a.accomplices == nil || i >= len(p.GetFirst()) || i >= len(p.GetSecond()) {
		return a.accomplices == nil
	}
	for _, owner := range []uint32{p.GetFirst()[i], p.GetSecond()[i]} {
		if int(owner) >= len(p.GetMembers()) || !slices.ContainsFunc(a.accomplices, func(k []byte) bool { return bytes.Equal(k, p.GetMembers()[owner]) }) {
			return false
		}
	}
	return true
}

// Do does the task and changes its result if a misbehaviour acts on it.
func (a *Adversary) Do(t *message.Task, inputs [][]byte) (*message.Result, []message.Blob, error) {
	r := a.draw(t)
	if r != nil && r.ignores {
		return nil, nil, nil
	}
	a.rob(t, inputs)
	began := time.Now()
	result, outputs, err := a.worker.Do(t, inputs)
	if err != nil || result == nil {
		return result, outputs, err
	}
	if r != nil && r.lags {
		time.Sleep(slowness * time.Since(began)) // a simulation has its own way to be slow
	}
	from := string(message.HashBytes(result.GetReceipt()))
	if i := slices.IndexFunc(a.changed, func(c change) bool { return c.from == from }); i >= 0 {
		return a.changed[i].result, a.changed[i].outputs, nil
	}
	receipt, err := result.Open()
	if err != nil {
		return nil, nil, err
	}
	truth := outputs
	altered := r != nil && receipt.GetFault() == message.Fault_FAULT_NONE && a.alter(r, receipt, &outputs)
	a.last[receipt.GetTask().GetKind()] = truth
	if altered && receipt.GetFault() != message.Fault_FAULT_NONE {
		a.worker.Drop(t.GetId(), t.GetAttempt())
	}
	result = a.pass(result, receipt, altered)
	a.changed = append(a.changed, change{from, result, outputs})
	if n := len(a.changed); n > keptChanges {
		a.changed = slices.Delete(a.changed, 0, n-keptChanges)
	}
	return result, outputs, nil
}

// pass signs what was changed, and everything that follows it in the log.
func (a *Adversary) pass(result *message.Result, receipt *message.Receipt, altered bool) *message.Result {
	if !altered && !a.forked {
		return result
	}
	if a.forked {
		receipt.Previous = a.previous
	}
	a.forked = true
	result = message.Sign(a.key, receipt)
	a.previous = message.HashBytes(result.GetReceipt())
	return result
}

// Acknowledge is the worker's, in the log of the adversary.
func (a *Adversary) Acknowledge(ack *message.Ack) ([]*message.Result, error) {
	results, err := a.worker.Acknowledge(ack)
	for i, result := range results {
		receipt, e := result.Open()
		if e != nil {
			return nil, e
		}
		results[i] = a.pass(result, receipt, false)
	}
	return results, err
}

// Drop is the worker's.
func (a *Adversary) Drop(id *message.TaskID, attempt uint32) { a.worker.Drop(id, attempt) }

// AcksSeen is the worker's.
func (a *Adversary) AcksSeen() uint64 { return a.worker.AcksSeen() }

// Save is the worker's.
func (a *Adversary) Save() []byte { return a.worker.Save() }
