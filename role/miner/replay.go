package miner

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"

	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/protocol/message"
)

// Replayed is what came of doing a log again.
type Replayed struct {
	States  [][]byte // the state commitments computed, in the order of the log
	Checked int      // receipts that hold, from the first on
	Problem string   // what does not hold in receipt Checked, empty if all hold
}

// Replay does the work of a log again, through the same code, and compares every output hash, loss, statistic and state
// commitment. The log is a stretch of one miner's receipts that begins with a LOAD or an INSTALL; in the latter case
// the checkpoint that it names must be among the blobs. private is what Save gave at that time, nil for a new miner.
// blobs finds bytes by their hash.
//
// The order of the log and the receipts decide everything, so that neither threads nor kernels nor the moments at which
// work was dropped matter. Receipts of work that was not done (MISSING_INPUT, FAILED) are passed over. It returns an
// error if the replay itself could not be done; a log that does not hold is no error.
func Replay(manifest *message.Manifest, text *data.Dataset, engine *kernel.Engine, log []*message.Receipt,
	blobs func(hash []byte) ([]byte, error), private []byte) (*Replayed, error) {
	m, err := New(manifest, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), nil, text, engine)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if err := m.Restore(private); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	r := &replay{miner: m, log: log, blobs: blobs, last: map[use]int{}}
	r.findUses()
	result := &Replayed{}
	for i, want := range log {
		got, err := r.redo(i, want)
		var broken *mismatch
		if errors.As(err, &broken) {
			result.Problem = broken.what
			return result, nil
		}
		if err != nil {
			return nil, fmt.Errorf("replay receipt %d: %w", i, err)
		}
		if got != nil && got.State != nil {
			result.States = append(result.States, got.State)
		}
		if got != nil {
			if what := differs(got, want); what != "" {
				result.Problem = fmt.Sprintf("%s: %s", want.GetTask().Key(), what)
				return result, nil
			}
		}
		result.Checked++
		r.dropUnused(i)
	}
	return result, nil
}

// replay is a log while it is done again.
type replay struct {
	miner *Miner
	log   []*message.Receipt
	blobs func(hash []byte) ([]byte, error)
	last  map[use]int // receipt that needs a slot or gradient last
}

// use names a slot or a waiting gradient of an epoch.
type use struct {
	gradient bool
	epoch    uint64
	batch    uint64
	attempt  uint32 // of the forward for a slot, of the backward for a gradient
}

// mismatch is a receipt that cannot be true.
type mismatch struct{ what string }

func (m *mismatch) Error() string { return m.what }

func mismatched(r *message.Receipt, format string, args ...any) error {
	return &mismatch{fmt.Sprintf("%s: %s", r.GetTask().Key(), fmt.Sprintf(format, args...))}
}

// findUses notes which receipt needs each slot and gradient last: the miner held them until then at least, and a
// commitment lists all that it held, so what no receipt needs any longer may go.
func (r *replay) findUses() {
	forward := map[uint64]uint32{} // attempt of each micro-batch's latest forward
	for i, l := range r.log {
		epoch, batch := l.GetTask().GetEpoch(), l.GetTask().GetBatch()
		switch l.GetTask().GetKind() {
		case message.TaskKind_FORWARD:
			forward[batch] = l.GetAttempt()
		case message.TaskKind_BACKWARD:
			if !l.GetRerun() {
				r.last[use{false, epoch, batch, forward[batch]}] = i
			}
		}
		for _, s := range l.GetSlots() {
			r.last[use{false, epoch, s.GetBatch(), s.GetAttempt()}] = i
		}
		for _, list := range [][]*message.Summed{l.GetWaiting(), l.GetSummed()} {
			for _, s := range list {
				r.last[use{true, epoch, s.GetBatch(), s.GetAttempt()}] = i
			}
		}
	}
}

// dropUnused drops what no receipt after i needs.
func (r *replay) dropUnused(i int) {
	m := r.miner
	for k := len(m.slots) - 1; k >= 0; k-- {
		if last, ok := r.last[use{false, m.epoch, m.slots[k].batch, m.slots[k].attempt}]; !ok || last <= i {
			m.freeSlot(k)
		}
	}
	for k := len(m.waiting) - 1; k >= 0; k-- {
		name := m.waiting[k].name
		if last, ok := r.last[use{true, m.epoch, name.Batch, name.attempt}]; !ok || last <= i {
			m.freeGradient(k)
		}
	}
}

// redo does what receipt i claims and returns the receipt that comes of it, nil for work that was not done.
func (r *replay) redo(i int, want *message.Receipt) (*message.Receipt, error) {
	if want.GetTask() == nil {
		return nil, &mismatch{fmt.Sprintf("receipt %d names no task", i)}
	}
	if f := want.GetFault(); f == message.Fault_MISSING_INPUT || f == message.Fault_FAILED {
		return nil, nil
	}
	kind := want.GetTask().GetKind()
	if kind == message.TaskKind_INSTALL && i == 0 {
		return r.beginAt(want)
	}
	if kind == message.TaskKind_LOAD || r.miner.stage != nil {
		if err := r.acknowledge(want); err != nil || kind == message.TaskKind_STEP {
			return r.stepped(want, err)
		}
		return r.doAgain(want)
	}
	return nil, mismatched(want, "the log begins with neither LOAD nor INSTALL")
}

// beginAt takes up the state that an install led to, as a LOAD of its checkpoint.
func (r *replay) beginAt(want *message.Receipt) (*message.Receipt, error) {
	if len(want.GetOutputs()) != 1 {
		return nil, mismatched(want, "it names no checkpoint")
	}
	blob, err := r.fetch(want.GetOutputs()[0].GetHash())
	if err != nil {
		return nil, err
	}
	w := &work{
		kind: message.TaskKind_LOAD, inputs: [][]byte{blob}, rate: want.GetRateBits(), receipt: &message.Receipt{},
		id: &message.TaskID{Kind: message.TaskKind_LOAD, Epoch: want.GetTask().GetEpoch() + 1, Stage: want.GetTask().GetStage()},
	}
	if err := r.miner.perform(w); err != nil {
		return nil, mismatched(want, "%v", err)
	}
	if !bytes.Equal(w.receipt.GetState(), want.GetState()) || !w.receipt.GetOutputs()[0].Same(want.GetOutputs()[0]) {
		return nil, mismatched(want, "the state at the start is another one")
	}
	return want, nil
}

// acknowledge lets the gradients that a receipt sums into the sum, all but the last of a STEP.
func (r *replay) acknowledge(want *message.Receipt) error {
	m := r.miner
	summed := want.GetSummed()
	if want.GetTask().GetKind() == message.TaskKind_STEP {
		if len(summed) != m.rules.perStep {
			return mismatched(want, "%d gradients summed, not %d", len(summed), m.rules.perStep)
		}
		summed = summed[:len(summed)-1]
	}
	for _, s := range summed {
		results, err := m.Acknowledge(r.ack(s))
		if err == nil && len(results) > 0 {
			err = errors.New("it sums more gradients than a step takes")
		}
		if err != nil {
			return mismatched(want, "%v", err)
		}
	}
	return nil
}

func (r *replay) ack(s *message.Summed) *message.Ack {
	m := r.miner
	id := &message.TaskID{Kind: m.gradientKind(), Epoch: m.epoch, Batch: s.GetBatch(), Stage: uint32(m.stage.Index())}
	return &message.Ack{Task: id, Attempt: s.GetAttempt(), Number: m.acks + 1}
}

// stepped takes the inner step of a STEP receipt, unless err says that it cannot be taken.
func (r *replay) stepped(want *message.Receipt, err error) (*message.Receipt, error) {
	if err != nil {
		return nil, err
	}
	results, err := r.miner.Acknowledge(r.ack(want.GetSummed()[r.miner.rules.perStep-1]))
	if err != nil {
		return nil, mismatched(want, "%v", err)
	}
	if len(results) != 1 {
		return nil, mismatched(want, "no step comes of it")
	}
	return results[0].Open()
}

// doAgain does a task as its receipt says that it was ordered.
func (r *replay) doAgain(want *message.Receipt) (*message.Receipt, error) {
	hashes := want.GetInputs()
	if readsTokens(want) {
		if len(hashes) == 0 {
			return nil, mismatched(want, "it names no tokens")
		}
		hashes = hashes[1:]
	}
	w := &work{
		kind: want.GetTask().GetKind(), id: want.GetTask().Key().ID(), attempt: want.GetAttempt(), rerun: want.GetRerun(),
		passing: want.GetPassing(), rate: want.GetRateBits(), plan: want.GetPlan(), weights: want.GetWeights(), elements: -1,
	}
	w.receipt = &message.Receipt{Task: w.id, Attempt: w.attempt, Inputs: append([][]byte(nil), hashes...)}
	var size uint64
	for _, hash := range hashes {
		blob, err := r.fetch(hash)
		if err != nil {
			return nil, err
		}
		size = max(size, uint64(len(blob)))
		w.inputs = append(w.inputs, blob)
	}
	if w.kind == message.TaskKind_REDUCE {
		if want.GetElements() > min(size, math.MaxInt32) {
			return nil, mismatched(want, "a shard of %d elements from sources of %d bytes", want.GetElements(), size)
		}
		w.elements = int(want.GetElements())
	}
	if err := r.miner.perform(w); err != nil && !w.blame(err) {
		return nil, mismatched(want, "%v", err)
	}
	return w.receipt, nil
}

// readsTokens reports whether the first input of a receipt is the hash of tokens. Work that stopped at a number that was
// not finite on arrival did not come to read them.
func readsTokens(r *message.Receipt) bool {
	if r.GetFault() == message.Fault_NON_FINITE_INPUT {
		return false
	}
	switch r.GetTask().GetKind() {
	case message.TaskKind_FORWARD, message.TaskKind_LOSS, message.TaskKind_EVALUATE:
		return true
	case message.TaskKind_BACKWARD:
		return r.GetRerun()
	}
	return false
}

// fetch finds a blob and checks its hash; an empty hash names no bytes.
func (r *replay) fetch(hash []byte) ([]byte, error) {
	if len(hash) == 0 {
		return nil, nil
	}
	blob, err := r.blobs(hash)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(message.HashBytes(blob), hash) {
		return nil, fmt.Errorf("blob %x has another hash", hash[:min(4, len(hash))])
	}
	return blob, nil
}

// differs says what two receipts of the same work do not agree on; what depends on the session is not compared.
func differs(got, want *message.Receipt) string {
	a, b := essence(got), essence(want)
	switch {
	case bytes.Equal(message.Encode(a), message.Encode(b)):
		return ""
	case a.GetFault() != b.GetFault():
		return fmt.Sprintf("fault %s, the log says %s", a.GetFault(), b.GetFault())
	case !bytes.Equal(a.GetState(), b.GetState()):
		return "the state commitment differs"
	case len(a.GetOutputs()) != len(b.GetOutputs()):
		return fmt.Sprintf("%d outputs, the log says %d", len(a.GetOutputs()), len(b.GetOutputs()))
	}
	for i := range a.GetOutputs() {
		if !a.GetOutputs()[i].Same(b.GetOutputs()[i]) {
			return fmt.Sprintf("output %d differs", i)
		}
	}
	if a.GetLossBits() != b.GetLossBits() {
		return fmt.Sprintf("loss %v, the log says %v", math.Float64frombits(a.GetLossBits()), math.Float64frombits(b.GetLossBits()))
	}
	return "inputs, weight versions or norms differ"
}

// essence is the part of a receipt that the log decides.
func essence(r *message.Receipt) *message.Receipt {
	return &message.Receipt{
		Task: r.GetTask(), Attempt: r.GetAttempt(), Step: r.GetStep(), Inputs: r.GetInputs(), Outputs: r.GetOutputs(),
		LossBits: r.GetLossBits(), Summed: r.GetSummed(), State: r.GetState(), Fault: r.GetFault(), Sources: r.GetSources(),
		ResultNorm2: r.GetResultNorm2(), GradientNorm: r.GetGradientNorm(), UpdateNorm2: r.GetUpdateNorm2(),
		Slots: r.GetSlots(), Waiting: r.GetWaiting(), Elements: r.GetElements(),
	}
}
