package sim

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// standIn is a worker that follows the protocol to the letter and computes next to nothing: its tensors have a few
// numbers that follow from their origin, its weights are a hash. What must be equal on two machines is equal here too,
// so that the laws mean the same as with real training.
type standIn struct {
	manifest *message.Manifest
	stages   int
	hash     []byte // of the manifest
	key      ed25519.PrivateKey
	session  []byte
	previous []byte

	stage, epoch uint64
	loaded       bool
	closed       bool
	checkpoint   []byte
	step, acks   uint64
	slots        map[uint64]uint32 // attempt of the forward, by micro-batch
	order        []uint64          // micro-batches in the order in which they took a slot
	waiting      []name            // gradients
	summed       []*message.Summed
	done         []answer
}

// name is a task and its attempt.
type name struct {
	message.Key
	attempt uint32
}

// answer is a result that may have to be given again.
type answer struct {
	name
	result  *message.Result
	outputs []message.Blob
}

func newStandIn(m *message.Manifest, key ed25519.PrivateKey, session []byte) *standIn {
	return &standIn{manifest: m, stages: manifest.Shape(m).Stages(), hash: message.Hash(m), key: key, session: session,
		slots: map[uint64]uint32{}}
}

// AcksSeen is the number of the last acknowledgement of this epoch.
func (w *standIn) AcksSeen() uint64 { return w.acks }

// Save returns nothing: a stand-in has no private state.
func (w *standIn) Save() []byte { return nil }

// Drop frees what is held for an attempt, with a nil id everything.
func (w *standIn) Drop(id *message.TaskID, attempt uint32) {
	if id == nil {
		w.waiting = nil
		clear(w.slots)
		return
	}
	if !w.loaded || id.GetEpoch() != w.epoch || uint64(id.GetStage()) != w.stage {
		return
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(n name) bool { return n == name{id.Key(), attempt} })
	if held, ok := w.slots[id.GetBatch()]; ok && (id.GetKind() == message.TaskKind_BACKWARD ||
		id.GetKind() == message.TaskKind_FORWARD && held == attempt) {
		delete(w.slots, id.GetBatch())
	}
}

// Acknowledge sums a gradient and takes an inner step with the K-th.
func (w *standIn) Acknowledge(a *message.Ack) ([]*message.Result, error) {
	key := a.GetTask().Key()
	if !w.loaded || key.Epoch < w.epoch || key.Epoch == w.epoch && a.GetNumber() <= w.acks {
		return nil, nil
	}
	i := slices.Index(w.waiting, name{key, a.GetAttempt()})
	if key.Epoch != w.epoch || uint64(key.Stage) != w.stage || a.GetNumber() != w.acks+1 || w.closed || i < 0 {
		return nil, fmt.Errorf("acknowledgement %d of %s, attempt %d, after %d, fits nothing", a.GetNumber(), key, a.GetAttempt(), w.acks)
	}
	w.waiting = slices.Delete(w.waiting, i, i+1)
	w.acks++
	w.summed = append(w.summed, &message.Summed{Batch: key.Batch, Attempt: a.GetAttempt(), Step: w.step})
	if len(w.summed) < int(w.manifest.GetRules().GetMicroBatchesPerStep()) {
		return nil, nil
	}
	w.step++
	r := &message.Receipt{Summed: w.summed, GradientNorm: 1, Task: &message.TaskID{
		Kind: message.TaskKind_STEP, Epoch: w.epoch, Batch: w.step, Stage: uint32(w.stage)}}
	w.summed = nil
	return []*message.Result{w.sign(r)}, nil
}

func (w *standIn) sign(r *message.Receipt) *message.Result {
	r.Manifest, r.Session, r.Previous, r.Numerics = w.hash, w.session, w.previous, w.manifest.GetNumerics()
	result := message.Sign(w.key, r)
	w.previous = message.HashBytes(result.GetReceipt())
	return result
}

// fault is what went wrong with work that was ordered well.
type fault struct {
	kind message.Fault
	note string
}

func (f fault) Error() string { return f.note }

// Do does one task.
func (w *standIn) Do(t *message.Task, inputs [][]byte) (*message.Result, []message.Blob, error) {
	id := name{t.GetId().Key(), t.GetAttempt()}
	if i := slices.IndexFunc(w.done, func(a answer) bool { return a.name == id }); i >= 0 {
		return w.done[i].result, w.done[i].outputs, nil
	}
	r := &message.Receipt{Task: t.GetId(), Attempt: t.GetAttempt()}
	for i, ref := range t.GetInputs() {
		r.Inputs = append(r.Inputs, ref.GetHash())
		if inputs[i] == nil && ref.GetSize() > 0 {
			r.Fault, r.FaultyInput = message.Fault_MISSING_INPUT, uint32(i)
		}
	}
	r.Rerun, r.Passing, r.RateBits = t.GetRerun(), t.GetPassing(), t.GetRateBits()
	if k := id.Kind; k != message.TaskKind_REDUCE {
		r.Plan = t.GetPlan()
	}
	var made [][]byte
	var err error
	if r.Fault == message.Fault_FAULT_NONE {
		made, err = w.perform(t, inputs, r)
	}
	var f fault
	if errors.As(err, &f) {
		r.Fault, r.Note, made = f.kind, f.note, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", id.Key, err)
	}
	if r.ReadsTokens() && r.Fault == message.Fault_FAULT_NONE {
		r.Inputs = append([][]byte{message.HashBytes(binary.LittleEndian.AppendUint64(nil, id.Batch))}, r.Inputs...)
	}
	var outputs []message.Blob
	for _, b := range made {
		blob := message.NewBlob(b)
		r.Outputs = append(r.Outputs, blob.Ref())
		if id.Kind.Stored() {
			outputs = append(outputs, blob)
		}
	}
	result := w.sign(r)
	w.done = append(w.done, answer{id, result, outputs})
	if n := len(w.done); n > 64 {
		w.done = w.done[n-64:]
	}
	return result, outputs, nil
}

func (w *standIn) perform(t *message.Task, inputs [][]byte, r *message.Receipt) ([][]byte, error) {
	id := t.GetId()
	switch id.GetKind() {
	case message.TaskKind_LOAD:
		return w.load(id, inputs), nil
	case message.TaskKind_REDUCE:
		r.Weights = t.GetWeights()
		if b, i := t.GetPlan().GetBounds(), int(id.GetShard()); i+1 < len(b) {
			r.Elements = b[i+1] - b[i]
		}
		return w.reduce(inputs, r)
	case message.TaskKind_STATE:
		return [][]byte{fmt.Appendf(nil, "private state of stage %d, epoch %d", id.GetStage(), id.GetEpoch())}, nil
	case message.TaskKind_REPLAY:
		return nil, w.replay(t, inputs, r)
	case message.TaskKind_OUTER:
		n := len(inputs) - len(t.GetPlan().GetFirst())
		return [][]byte{outer(w.origin(id, inputs[:n]), id.GetEpoch(), inputs[n:])}, nil
	}
	installed := id.GetKind() == message.TaskKind_UPLOAD && id.GetEpoch()+1 == w.epoch
	if !w.loaded || uint64(id.GetStage()) != w.stage || id.GetEpoch() != w.epoch && !installed {
		return nil, fmt.Errorf("this miner holds stage %d in epoch %d", w.stage, w.epoch)
	}
	switch id.GetKind() {
	case message.TaskKind_UPLOAD:
		return [][]byte{w.checkpoint}, nil
	case message.TaskKind_INSTALL:
		w.checkpoint = outer(w.checkpoint, w.epoch, inputs)
		w.begin(w.epoch + 1)
		return [][]byte{w.checkpoint}, nil
	case message.TaskKind_SHARE, message.TaskKind_CLOSE:
		return w.close(t, r), nil
	}
	if w.closed {
		return nil, errors.New("the epoch is closed")
	}
	return w.train(t, inputs, r)
}

// load takes over a stage.
func (w *standIn) load(id *message.TaskID, inputs [][]byte) [][]byte {
	w.checkpoint = w.origin(id, inputs)
	w.stage, w.loaded = uint64(id.GetStage()), true
	w.begin(id.GetEpoch())
	return [][]byte{w.checkpoint}
}

// origin is a stage's checkpoint: the first input, or the initial weights.
func (w *standIn) origin(id *message.TaskID, inputs [][]byte) []byte {
	if len(inputs) > 0 {
		return inputs[0]
	}
	return fmt.Appendf(nil, "stage %d, initial weights", id.GetStage())
}

// outer is the outer step: what it gives follows from the checkpoint and the merged shards alone.
func outer(checkpoint []byte, epoch uint64, shards [][]byte) []byte {
	next := fmt.Appendf(nil, "epoch %d, after %x", epoch+1, message.HashBytes(checkpoint))
	for _, b := range shards {
		next = fmt.Appendf(next, ", %x", message.HashBytes(b))
	}
	return next
}

func (w *standIn) begin(epoch uint64) {
	w.epoch, w.closed, w.step, w.acks = epoch, false, 0, 0
	w.summed, w.waiting, w.done, w.order = nil, nil, nil, nil
	clear(w.slots)
}

// train does the tasks of a micro-batch's way.
func (w *standIn) train(t *message.Task, inputs [][]byte, r *message.Receipt) ([][]byte, error) {
	id, last := t.GetId(), int(w.stage) == w.stages-1
	for i, b := range inputs {
		x := make([]float32, size)
		if err := tensor.Decode(x, b, w.wire()); err != nil {
			return nil, err
		}
		if !kernel.AllFinite(x) {
			r.FaultyInput = uint32(i)
			return nil, fault{message.Fault_NON_FINITE_INPUT, "an input is not finite"}
		}
	}
	output := [][]byte{w.tensor(id, w.wire())}
	switch id.GetKind() {
	case message.TaskKind_FORWARD:
		if _, again := w.slots[id.GetBatch()]; !again && len(w.slots) >= int(w.manifest.GetRules().GetMaxSlots()) {
			delete(w.slots, w.oldest()) // it was given up, and the news were lost
		}
		w.slots[id.GetBatch()] = t.GetAttempt()
		w.order = append(w.order, id.GetBatch())
		return output, nil
	case message.TaskKind_EVALUATE:
		if last {
			r.LossBits, output = w.loss(id), nil
		}
		return output, nil
	case message.TaskKind_LOSS:
		r.LossBits = w.loss(id)
	case message.TaskKind_BACKWARD:
		if _, ok := w.slots[id.GetBatch()]; !ok && !t.GetRerun() {
			return nil, fault{message.Fault_FAILED, "its forward is not held"}
		}
		delete(w.slots, id.GetBatch())
	default:
		return nil, fmt.Errorf("a task of kind %d", id.GetKind())
	}
	if !t.GetPassing() {
		w.waiting = append(w.waiting, name{id.Key(), t.GetAttempt()})
	}
	if w.stage == 0 {
		output = nil
	}
	return output, nil
}

// oldest is the micro-batch that holds its slot for the longest time.
func (w *standIn) oldest() uint64 {
	for i, batch := range w.order {
		if _, ok := w.slots[batch]; ok && !slices.Contains(w.order[i+1:], batch) {
			w.order = w.order[i+1:]
			return batch
		}
	}
	return 0
}

// loss is a number that falls from epoch to epoch.
func (w *standIn) loss(id *message.TaskID) uint64 {
	return math.Float64bits(2 + 3/float64(1+id.GetEpoch()))
}

// close ends the epoch's training, with a share if one is ordered.
func (w *standIn) close(t *message.Task, r *message.Receipt) [][]byte {
	if len(w.summed) > 0 {
		w.step++
		r.Summed, w.summed = w.summed, nil
	}
	w.closed, w.waiting = true, nil
	clear(w.slots)
	if t.GetId().GetKind() == message.TaskKind_CLOSE {
		return nil
	}
	var shards [][]byte
	for i := range t.GetPlan().GetFirst() {
		id := t.GetId().Key().ID()
		id.Shard = uint32(i)
		shards = append(shards, w.tensor(id, tensor.DType(w.manifest.GetRules().GetShare())))
	}
	return shards
}

// reduce is the plain mean of the finite sources.
func (w *standIn) reduce(inputs [][]byte, r *message.Receipt) ([][]byte, error) {
	dt, sum, n := tensor.DType(w.manifest.GetRules().GetShare()), make([]float32, size), 0
	for _, b := range inputs {
		x := make([]float32, size)
		if err := tensor.Decode(x, b, dt); err != nil {
			return nil, err
		}
		fine := kernel.AllFinite(x)
		if fine {
			kernel.Add(sum, x)
			n++
		}
		r.Sources = append(r.Sources, &message.SourceStats{Finite: fine})
	}
	kernel.Scale(sum, 1/float32(max(1, n)))
	return [][]byte{tensor.Encode(nil, sum, dt, 0)}, nil
}

// size is the length of a stand-in's tensors.
const size = 4

func (w *standIn) wire() tensor.DType { return tensor.DType(w.manifest.GetModel().GetWire()) }

// tensor gives a few numbers that follow from a task, the miner and its step.
func (w *standIn) tensor(id *message.TaskID, dt tensor.DType) []byte {
	var b bytes.Buffer
	b.Write(message.Encode(id))
	b.Write(w.session)
	b.Write(binary.LittleEndian.AppendUint64(nil, w.step))
	dice := rand.New(rand.NewChaCha8([32]byte(message.HashBytes(b.Bytes()))))
	x := make([]float32, size)
	for i := range x {
		x[i] = float32(dice.NormFloat64())
	}
	return tensor.Encode(nil, x, dt, 0)
}
