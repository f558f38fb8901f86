// Package validator does the tasks of one validator: it replays stretches of miners' logs through the miner's own code and
// returns what comes of them. It is told what was to be done and with which inputs, never what came of it: the
// orchestrator compares.
//
// Like a miner it is plain methods: no goroutine, no clock, no disk, no randomness.
package validator

import (
	"crypto/ed25519"
	"fmt"

	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/miner"
)

// Validator is one validator of a run. One goroutine at a time may use it. It holds no state but its own log: it is a
// miner that never loads a stage.
type Validator struct {
	miner *miner.Miner
}

// New returns a validator. The arguments and the errors are those of miner.New.
func New(manifest *message.Manifest, key ed25519.PrivateKey, session []byte, text *data.Dataset, engine *kernel.Engine) (*Validator, error) {
	m, err := miner.New(manifest, key, session, text, engine)
	if err != nil {
		return nil, err
	}
	return &Validator{m}, nil
}

// Do replays a log and returns the signed result. An error means that the task is none for a validator, and changes
// nothing; inputs that could not be had are a fault in the result.
func (v *Validator) Do(t *message.Task, inputs [][]byte) (*message.Result, []message.Blob, error) {
	if k := t.GetId().GetKind(); k != message.TaskKind_REPLAY {
		return nil, nil, fmt.Errorf("a validator is not ordered to do tasks of kind %s", k)
	}
	return v.miner.Do(t, inputs)
}

// Acknowledge does nothing: a validator sums no gradients.
func (v *Validator) Acknowledge(*message.Ack) ([]*message.Result, error) { return nil, nil }

// Drop does nothing: a validator holds nothing between two tasks.
func (v *Validator) Drop(*message.TaskID, uint32) {}

// AcksSeen is 0.
func (v *Validator) AcksSeen() uint64 { return 0 }

// Save returns nothing: a restarted validator needs no state.
func (v *Validator) Save() []byte { return nil }
