// Package miner does the tasks of one miner: forward, backward and inner steps on its stage, its part of a merge, and
// the signed, chained log of all of it.
//
// A Miner is plain methods: no goroutine, no clock, no disk, no randomness. The driver brings an order and the bytes of
// its inputs, and takes away a signed result and the bytes of its outputs:
//
//	result, blobs, err := m.Do(task, inputs) // store the blobs, then send the result
//	results, err := m.Acknowledge(ack)       // a gradient enters the sum; perhaps an inner step
//	m.Drop(id, attempt)                      // refused or cancelled: frees what is held for it
//
// One file holds one step of an epoch: load, forward, backward, step, share, reduce, install. What went wrong with the
// work is part of the result (message.Fault); an error means that the order makes no sense here, and nothing changed.
// Replay does a log again, through the same code, and finds the first receipt that does not hold.
package miner

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/aggregate"
	"github.com/iota-train/iota/protocol/message"
)

// Miner is one miner of a run. One goroutine at a time may use it.
type Miner struct {
	manifest *message.Manifest
	rules    rules
	config   model.Config
	total    int // weights of all stages
	text     *data.Dataset
	engine   *kernel.Engine
	log      log

	stage  *model.Stage // nil before the first LOAD
	size   int          // weights of the stage
	epoch  uint64
	rate   float32 // inner learning rate of the epoch
	mark   mark    // of the checkpoint that start and outer encode to
	closed bool    // the epoch's training is over, until the install

	start   *version  // weights at the start of the epoch
	outer   []float32 // momentum of the outer step
	current *version
	step    uint64 // number of the current weight version: inner steps since the install
	floor   uint64 // version of the last return to the epoch's start
	private private
	saved   private // as it was at the start of the epoch
	starts  []start // of the epochs before, oldest first, as long as they can be audited
	mids    []mid   // states at commitments, for the same reason

	acks    uint64
	sum     []float32 // of the gradients in summed
	summed  []*message.Summed
	slots   []*slot
	waiting []*gradient

	buffers buffers
	shards  shards // the sources and the result of a reduction, however many
	reducer *aggregate.Reducer
}

// New returns a miner of a run that holds no stage yet. session names the process: 16 bytes that no other process has.
// It is an error if the manifest contradicts itself, if text is not the text that it names, or if engine computes other
// numerics.
func New(manifest *message.Manifest, key ed25519.PrivateKey, session []byte, text *data.Dataset, engine *kernel.Engine) (*Miner, error) {
	config, r, err := readManifest(manifest)
	if err != nil {
		return nil, err
	}
	if id := manifest.GetNumerics(); id != string(engine.Numerics()) {
		return nil, fmt.Errorf("the run has numerics %q, this engine computes %s", id, string(engine.Numerics()))
	}
	if len(key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("key of %d bytes, want %d", len(key), ed25519.PrivateKeySize)
	}
	if err := checkText(manifest, config, text); err != nil {
		return nil, err
	}
	reducer, err := aggregate.New(manifest.GetRules().GetAggregate())
	if err != nil {
		return nil, err
	}
	return &Miner{
		manifest: manifest, rules: r, config: config, total: config.Parameters(), text: text, engine: engine,
		log: newLog(manifest, key, session, r.slots), reducer: reducer,
	}, nil
}

// checkText compares a dataset with what the manifest says of it.
func checkText(manifest *message.Manifest, config model.Config, text *data.Dataset) error {
	if hash := text.Hash(); !bytes.Equal(hash[:], manifest.GetData().GetHash()) {
		return fmt.Errorf("the text's hash is %x, the run trains on %x", hash[:4], manifest.GetData().GetHash())
	}
	if vocab := text.Tokenizer().Vocab(); vocab > config.Vocab {
		return fmt.Errorf("the text has a vocabulary of %d tokens, the model of %d", vocab, config.Vocab)
	}
	return text.Check(config.Batch, config.SeqLen)
}

// Stage returns the stage that the miner holds, or false before the first LOAD.
func (m *Miner) Stage() (uint32, bool) {
	if m.stage == nil {
		return 0, false
	}
	return uint32(m.stage.Index()), true
}

// Epoch returns the epoch whose start weights the miner holds.
func (m *Miner) Epoch() uint64 { return m.epoch }

// AcksSeen returns the number of the last acknowledgement of this epoch.
func (m *Miner) AcksSeen() uint64 { return m.acks }

// work is one task while it is done.
type work struct {
	kind     message.TaskKind
	id       *message.TaskID
	attempt  uint32
	inputs   [][]byte
	rerun    bool
	passing  bool
	rate     uint32
	plan     *message.Plan
	weights  []uint64
	log      []*message.Receipt // of a REPLAY
	elements int                // of the shard of a REDUCE, -1 where the plan says it

	receipt *message.Receipt
	outputs []message.Blob
}

// Do does one task. inputs are the bytes that the task's references name, whose hashes the driver has checked; nil for
// one that could not be had. The driver stores the outputs before it sends the result. LOAD, INSTALL and OUTER name
// their checkpoint in the receipt without giving its bytes: UPLOAD does. A task sent again gives the result that it
// gave, while it is among the latest.
func (m *Miner) Do(t *message.Task, inputs [][]byte) (*message.Result, []message.Blob, error) {
	if t.GetId() == nil {
		return nil, nil, errors.New("order without a task id")
	}
	name := taskName{t.GetId().Key(), t.GetAttempt()}
	if done, ok := m.log.find(name); ok {
		return done.result, done.outputs, nil
	}
	w := &work{
		kind: t.GetId().GetKind(), id: name.Key.ID(), attempt: t.GetAttempt(), inputs: inputs, rerun: t.GetRerun(), passing: t.GetPassing(),
		rate: t.GetRateBits(), plan: t.GetPlan(), weights: t.GetWeights(), log: t.GetLog(), elements: -1,
	}
	w.receipt = &message.Receipt{Task: w.id, Attempt: w.attempt}
	err := w.takeInputs(t.GetInputs())
	if err == nil {
		err = m.perform(w)
	}
	if err != nil && !w.blame(err) {
		return nil, nil, fmt.Errorf("%s: %w", name.Key, err)
	}
	return m.log.add(name, w.receipt, w.outputs), w.outputs, nil
}

// perform does the work by its kind and fills in the receipt.
func (m *Miner) perform(w *work) error {
	switch w.kind {
	case message.TaskKind_LOAD:
		return m.load(w)
	case message.TaskKind_FORWARD:
		return m.forward(w)
	case message.TaskKind_LOSS:
		return m.loss(w)
	case message.TaskKind_BACKWARD:
		return m.backward(w)
	case message.TaskKind_EVALUATE:
		return m.evaluate(w)
	case message.TaskKind_SHARE:
		return m.share(w)
	case message.TaskKind_CLOSE:
		return m.closeEpoch(w)
	case message.TaskKind_REDUCE:
		return m.reduce(w)
	case message.TaskKind_INSTALL:
		return m.install(w)
	case message.TaskKind_UPLOAD:
		return m.upload(w)
	case message.TaskKind_OUTER:
		return m.outerStep(w)
	case message.TaskKind_STATE:
		return m.giveState(w)
	case message.TaskKind_REPLAY:
		return m.replay(w)
	}
	return fmt.Errorf("a miner is not ordered to do tasks of kind %d", w.kind)
}

// takeInputs holds the inputs against their references and writes down the hashes.
func (w *work) takeInputs(refs []*message.BlobRef) error {
	if len(refs) != len(w.inputs) {
		return fmt.Errorf("%d inputs for %d references", len(w.inputs), len(refs))
	}
	missing := -1
	for i, ref := range refs {
		w.receipt.Inputs = append(w.receipt.Inputs, ref.GetHash())
		switch {
		case w.inputs[i] == nil && ref.GetSize() > 0:
			missing = i
		case uint64(len(w.inputs[i])) != ref.GetSize():
			return fmt.Errorf("input %d has %d bytes, its reference says %d", i, len(w.inputs[i]), ref.GetSize())
		}
	}
	if missing >= 0 {
		return &faulty{message.Fault_MISSING_INPUT, missing, fmt.Sprintf("input %d cannot be had", missing)}
	}
	return nil
}

// want checks the number of inputs.
func (w *work) want(n int) error {
	if len(w.inputs) != n {
		return fmt.Errorf("%d inputs, want %d", len(w.inputs), n)
	}
	return nil
}

// faulty is what went wrong with work that was ordered well.
type faulty struct {
	fault message.Fault
	input int // of the task, if that is what is wrong
	note  string
}

func (f *faulty) Error() string { return f.note }

func failed(format string, args ...any) error {
	return &faulty{message.Fault_FAILED, 0, fmt.Sprintf(format, args...)}
}

// blame writes a fault into the receipt, or reports that err is none.
func (w *work) blame(err error) bool {
	var f *faulty
	if !errors.As(err, &f) {
		return false
	}
	w.receipt.Fault, w.receipt.FaultyInput, w.receipt.Note = f.fault, uint32(f.input), f.note
	w.receipt.Outputs, w.outputs = nil, nil
	return true
}

// give adds an output to the work.
func (w *work) give(b []byte) {
	blob := message.NewBlob(b)
	w.outputs = append(w.outputs, blob)
	w.receipt.Outputs = append(w.receipt.Outputs, blob.Ref())
}

// here checks that the work is for the stage and the epoch that the miner holds.
func (m *Miner) here(w *work) error {
	switch {
	case m.stage == nil:
		return errors.New("no stage is loaded")
	case w.id.GetStage() != uint32(m.stage.Index()):
		return fmt.Errorf("this miner holds stage %d", m.stage.Index())
	case w.id.GetEpoch() != m.epoch:
		return fmt.Errorf("this miner is in epoch %d", m.epoch)
	}
	return nil
}

// training is here for work that ends when the epoch closes.
func (m *Miner) training(w *work) error {
	if err := m.here(w); err != nil {
		return err
	}
	if m.closed {
		return errors.New("the epoch is closed")
	}
	return nil
}

func (m *Miner) first() bool { return m.stage.Index() == 0 }

func (m *Miner) last() bool { return m.stage.Index() == m.config.Stages()-1 }
