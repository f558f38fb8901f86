package adversary

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
)

// kind is a way to misbehave.
type kind struct {
	name    string
	tasks   []message.TaskKind
	ignores bool                            // leaves the task undone
	lags    bool                            // takes its time
	fault   message.Fault                   // is what it reports in place of a result
	unfit   bool                            // calls a source unfit that it merged
	tensor  func(x []float32, d *rand.Rand) // changes a tensor in place
	joint   bool                            // accomplices do it alike, and only where nobody but them can tell
	stale   bool
	copies  bool                                        // gives another miner's share
	answer  func(list []*message.Receipt, d *rand.Rand) // changes what came of a replay
}

var (
	wires    = []message.TaskKind{message.TaskKind_FORWARD, message.TaskKind_LOSS, message.TaskKind_BACKWARD, message.TaskKind_EVALUATE}
	training = append([]message.TaskKind{message.TaskKind_SHARE}, wires...)
	replays  = []message.TaskKind{message.TaskKind_REPLAY}
	shares   = []message.TaskKind{message.TaskKind_SHARE}
	reduces  = []message.TaskKind{message.TaskKind_REDUCE}
)

var kinds = []kind{
	{name: "free-rider", tasks: training, tensor: noise},
	{name: "zero", tasks: training, tensor: func(x []float32, _ *rand.Rand) { clear(x) }},
	{name: "scale", tasks: training, tensor: func(x []float32, _ *rand.Rand) { times(x, 10) }},
	{name: "sign-flip", tasks: training, tensor: func(x []float32, _ *rand.Rand) { times(x, -1) }},
	{name: "stale", tasks: training, stale: true},
	{name: "copy", tasks: shares, copies: true},
	{name: "backward-noise", tasks: []message.TaskKind{message.TaskKind_LOSS, message.TaskKind_BACKWARD}, tensor: noise},
	{name: "bad-reduce", tasks: reduces, tensor: noise},
	{name: "collude-reduce", tasks: reduces, tensor: noise, joint: true},
	{name: "nan", tasks: training, tensor: func(x []float32, d *rand.Rand) { x[d.IntN(len(x))] = float32(math.NaN()) }},
	{name: "false-nan", tasks: wires, fault: message.Fault_NON_FINITE_INPUT},
	{name: "false-missing", tasks: wires, fault: message.Fault_MISSING_INPUT},
	{name: "false-unfit", tasks: reduces, unfit: true},
	{name: "lazy", tasks: replays, answer: guess},
	{name: "lying", tasks: replays, answer: accuse},
	{name: "slow", tasks: training, lags: true},
	{name: "drop", tasks: append(append([]message.TaskKind{}, training...), message.TaskKind_REDUCE), ignores: true},
}

// injected are accidents, and lies of one experiment: simulations cause them, nobody asks for them.
var injected = []kind{
	{name: "fault", tasks: training, fault: message.Fault_NON_FINITE_OWN},
	{name: "idle", tasks: []message.TaskKind{message.TaskKind_LOAD}, ignores: true},
	{name: "invert", tasks: shares, tensor: func(x []float32, _ *rand.Rand) { times(x, -10) }},
}

// Falsifies reports whether a miner's misbehaviour of that name would make a receipt false if it acted on its task: at a
// task that gives nothing there is nothing to change.
func Falsifies(name string, r *message.Receipt) bool {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 || !slices.Contains(kinds[i].tasks, r.GetTask().GetKind()) || r.GetFault() != message.Fault_FAULT_NONE {
		return false
	}
	switch k := kinds[i]; {
	case k.ignores, k.lags, k.answer != nil:
		return false
	case k.fault != message.Fault_FAULT_NONE:
		return true
	case k.unfit:
		return len(r.GetSources()) > 0
	}
	return len(r.GetOutputs()) > 0
}

// ofTask are dice that follow from the task and who the accomplices are: they throw them alike, and others differently.
func (a *Adversary) ofTask(id *message.TaskID) *rand.Rand {
	keys := slices.Clone(a.accomplices)
	slices.SortFunc(keys, bytes.Compare)
	var s [32]byte
	copy(s[:], message.HashBytes(append(bytes.Join(keys, nil), message.Hash(id)...)))
	return rand.New(rand.NewChaCha8(s))
}

// guess answers a replay without computing: whatever was to be found is made up.
func guess(list []*message.Receipt, d *rand.Rand) {
	for i, r := range list {
		list[i] = &message.Receipt{Task: r.GetTask(), Attempt: r.GetAttempt(), Inputs: r.GetInputs(), Summed: r.GetSummed()}
		for _, out := range r.GetOutputs() {
			list[i].Outputs = append(list[i].Outputs, &message.BlobRef{Hash: hash(d), Size: out.GetSize()})
		}
		if r.GetState() != nil {
			list[i].State = hash(d)
		}
	}
}

// accuse says that one receipt of a sound log does not hold.
func accuse(list []*message.Receipt, d *rand.Rand) {
	if len(list) > 0 {
		list[d.IntN(len(list))].State = hash(d)
	}
}

// hash makes one up.
func hash(d *rand.Rand) []byte {
	b := make([]byte, 32)
	for i := range b {
		b[i] = byte(d.Uint32())
	}
	return b
}

// noise replaces a tensor by another one of the same size and strength.
func noise(x []float32, d *rand.Rand) {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	strength := math.Sqrt(sum / float64(len(x)))
	if strength == 0 {
		strength = 1
	}
	for i := range x {
		x[i] = float32(strength * d.NormFloat64())
	}
}

func times(x []float32, s float32) {
	for i := range x {
		x[i] *= s
	}
}

// slowness is how many times longer a slow miner takes.
const slowness = 10

// alter changes a receipt and its outputs, and reports whether anything is different now.
func (a *Adversary) alter(r *rule, receipt *message.Receipt, outputs *[]message.Blob) bool {
	switch {
	case r.lags:
		return false
	case r.answer != nil:
		r.answer(receipt.GetReplayed(), r.dice)
		return len(receipt.GetReplayed()) > 0
	case r.fault != message.Fault_FAULT_NONE:
		receipt.Inputs = receipt.BlobHashes() // one that stops at an input has not come to its tokens
		receipt.Fault, receipt.Note = r.fault, "so says an adversary"
		receipt.Outputs, receipt.LossBits, *outputs = nil, 0, nil
		return true
	case r.unfit:
		if n := len(receipt.GetSources()); n > 0 {
			receipt.Sources[r.dice.IntN(n)] = &message.SourceStats{}
		}
		return len(receipt.GetSources()) > 0
	case r.stale:
		old := a.last[receipt.GetTask().GetKind()]
		if len(old) != len(*outputs) || len(old) == 0 {
			return false
		}
		for i := range old {
			if len(old[i].Bytes()) != len((*outputs)[i].Bytes()) {
				return false
			}
		}
		*outputs = old
	case r.copies:
		forged, changed := a.forge(*outputs)
		if !changed {
			return false
		}
		*outputs = forged
	default:
		*outputs = a.bend(r, receipt.GetTask(), *outputs)
	}
	receipt.Outputs = nil
	for _, b := range *outputs {
		receipt.Outputs = append(receipt.Outputs, b.Ref())
	}
	return len(*outputs) > 0
}

// bend changes every tensor of some outputs. The outputs themselves stay: the worker may give them again.
func (a *Adversary) bend(r *rule, id *message.TaskID, outputs []message.Blob) []message.Blob {
	dt := tensor.DType(a.manifest.GetModel().GetWire())
	if k := id.GetKind(); k == message.TaskKind_SHARE || k == message.TaskKind_REDUCE {
		dt = tensor.DType(a.manifest.GetRules().GetShare())
	}
	dice := r.dice
	if r.joint {
		dice = a.ofTask(id)
	}
	bent := make([]message.Blob, len(outputs))
	for i, b := range outputs {
		bent[i] = b
		x := make([]float32, elements(len(b.Bytes()), dt))
		if len(x) == 0 || tensor.Decode(x, b.Bytes(), dt) != nil {
			continue
		}
		r.tensor(x, dice)
		bent[i] = message.NewBlob(tensor.Encode(nil, x, dt, 0))
	}
	return bent
}

// elements is the length of a tensor whose encoding has so many bytes.
func elements(bytes int, dt tensor.DType) int {
	low, high := 0, bytes
	for low < high { // EncodedSize grows with the length
		if mid := (low + high + 1) / 2; tensor.EncodedSize(mid, dt) <= bytes {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}
