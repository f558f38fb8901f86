package miner

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/protocol/message"
)

// Log is a stretch of one miner's receipts with what a replay needs beside them. It begins with a LOAD or an INSTALL,
// or holds nothing but REDUCE and OUTER, which need no state.
type Log struct {
	Receipts []*message.Receipt // whole, or as message.Receipt.Ordered gives them
	// Private is what Save gave at the start of the stretch, nil for a new miner.
	Private []byte
	// Checkpoint is the hash of the weights that an INSTALL led to, where the log begins with one.
	Checkpoint []byte
	// Resume is a state that a STEP committed to, nil to begin at the start. Then the log is the LOAD or INSTALL of the
	// epoch, the forwards of the slots that the state holds, the STEP, and what came after it.
	Resume []byte
	// Blobs finds the bytes of a hash.
	Blobs func(hash []byte) ([]byte, error)
}

// Replayed is what came of doing a log again.
type Replayed struct {
	Receipts []*message.Receipt // the essence of what was computed, in the order of the log, until a receipt that cannot be true
	States   [][]byte           // the state commitments among them
	Checked  int                // receipts that hold, from the first on; Again does not compare
	Problem  string             // what does not hold in receipt Checked or cannot be true in the next one, empty if there is none
	Saved    []byte             // the private state at the last install of the log
}

// Replay does the work of a log again, through the same code, and compares every output hash, loss, statistic and state
// commitment. The checkpoint of the install that a log begins with is the one that its receipt names.
//
// The order of the log and the receipts decide everything, so that neither threads nor kernels nor the moments at which
// work was dropped matter. Receipts of work that was not done (MISSING_INPUT, FAILED) are passed over. It returns an
// error if the replay itself could not be done; a log that does not hold is no error.
func Replay(manifest *message.Manifest, text *data.Dataset, engine *kernel.Engine, log []*message.Receipt,
	blobs func(hash []byte) ([]byte, error), private []byte) (*Replayed, error) {
	l := Log{Receipts: log, Private: private, Blobs: blobs}
	if len(log) > 0 && len(log[0].GetOutputs()) == 1 {
		l.Checkpoint = log[0].GetOutputs()[0].GetHash()
	}
	return l.run(manifest, text, engine, func(i int, got *message.Receipt) string {
		return message.Differs(got, log[i].Essence(i))
	})
}

// Again does the work of a log again and compares nothing: it is for who is told the orders only.
func (l Log) Again(manifest *message.Manifest, text *data.Dataset, engine *kernel.Engine) (*Replayed, error) {
	return l.run(manifest, text, engine, func(int, *message.Receipt) string { return "" })
}

// run does the work again until compare finds a difference.
func (l Log) run(manifest *message.Manifest, text *data.Dataset, engine *kernel.Engine,
	compare func(i int, got *message.Receipt) string) (*Replayed, error) {
	m, err := New(manifest, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), nil, text, engine)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	result := &Replayed{}
	if err := m.Restore(l.Private); err != nil {
		result.Problem = err.Error()
		return result, nil
	}
	r := &replay{miner: m, log: l.Receipts, blobs: l.Blobs, start: l.Checkpoint, last: map[use]int{}, resume: l.Resume, at: -1}
	r.findUses()
	if l.Resume != nil {
		r.at = slices.IndexFunc(l.Receipts, func(r *message.Receipt) bool { return r.GetTask().GetKind() == message.TaskKind_STEP })
	}
	for i, want := range l.Receipts {
		got, err := r.redo(i, want)
		var broken *mismatch
		if errors.As(err, &broken) {
			result.Problem = broken.what
			break
		}
		if err != nil {
			return nil, fmt.Errorf("replay receipt %d: %w", i, err)
		}
		if got == nil {
			got = &message.Receipt{Task: want.GetTask(), Fault: message.Fault_FAILED} // not done: nothing is decided
		}
		if got.State != nil {
			result.States = append(result.States, got.State)
		}
		got = got.Essence(i)
		if what := compare(i, got); what != "" {
			result.Problem = fmt.Sprintf("%s: %s", want.GetTask().Key(), what)
			break
		}
		result.Receipts = append(result.Receipts, got)
		result.Checked++
		r.dropUnused(i)
	}
	result.Saved = m.Save()
	return result, nil
}

// replay is a log while it is done again.
type replay struct {
	miner  *Miner
	log    []*message.Receipt
	blobs  func(hash []byte) ([]byte, error)
	resume []byte      // state to resume
	at     int         // the STEP that committed to it, -1 without one
	held   []heldSlot  // of that state
	start  []byte      // hash of the checkpoint that the log begins with
	last   map[use]int // receipt that needs a slot or gradient last
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
