package adversary

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
)

// worker answers every task with the same tensors, as part of a log of its own.
type worker struct {
	key      ed25519.PrivateKey
	previous []byte
	done     map[message.Key]*message.Result
	x        []float32
	dropped  int
}

var trueTensor = []float32{1, -2, 3, 0.5}

func (w *worker) Do(t *message.Task, _ [][]byte) (*message.Result, []message.Blob, error) {
	blob := message.NewBlob(tensor.Encode(nil, w.x, tensor.F32, 0))
	if r := w.done[t.GetId().Key()]; r != nil {
		return r, []message.Blob{blob}, nil
	}
	r := &message.Receipt{Task: t.GetId(), Previous: w.previous, Outputs: []*message.BlobRef{blob.Ref()}}
	if t.GetId().GetKind() == message.TaskKind_REDUCE {
		r.Sources = []*message.SourceStats{{Finite: true}, {Finite: true}}
	}
	if t.GetId().GetKind() == message.TaskKind_REPLAY {
		r.Replayed = []*message.Receipt{{State: []byte("true")}}
	}
	result := message.Sign(w.key, r)
	w.previous = message.HashBytes(result.GetReceipt())
	w.done[t.GetId().Key()] = result
	return result, []message.Blob{blob}, nil
}

func (w *worker) Acknowledge(*message.Ack) ([]*message.Result, error) {
	result := message.Sign(w.key, &message.Receipt{Task: &message.TaskID{Kind: message.TaskKind_STEP}, Previous: w.previous})
	w.previous = message.HashBytes(result.GetReceipt())
	return []*message.Result{result}, errors.New("the worker's own")
}

func (w *worker) Drop(*message.TaskID, uint32) { w.dropped++ }
func (w *worker) AcksSeen() uint64             { return 7 }
func (w *worker) Save() []byte                 { return []byte("state") }

func newWorker() *worker {
	return &worker{key: ed25519.NewKeyFromSeed(make([]byte, 32)), done: map[message.Key]*message.Result{}, x: slices.Clone(trueTensor)}
}

func run() *message.Manifest {
	return &message.Manifest{Model: &message.Model{Wire: "f32"}, Rules: &message.Rules{Share: "f32"}}
}

func task(k message.TaskKind, batch uint64) *message.Task {
	return &message.Task{Id: &message.TaskID{Kind: k, Batch: batch}}
}

// do does a task and returns its receipt and tensor. The signature, the output's hash and the log must hold.
func do(t *testing.T, w *worker, a Worker, log *[]byte, tk *message.Task) (*message.Receipt, []float32) {
	t.Helper()
	result, outputs, err := a.Do(tk, nil)
	if err != nil {
		t.Fatal(err)
	}
	if result == nil {
		return nil, nil
	}
	r := open(t, w, log, result)
	if len(r.GetOutputs()) != len(outputs) {
		t.Fatalf("%d outputs for %d references", len(outputs), len(r.GetOutputs()))
	}
	if len(outputs) == 0 {
		return r, nil
	}
	if !r.GetOutputs()[0].Same(outputs[0].Ref()) {
		t.Error("the receipt names another output")
	}
	x := make([]float32, len(trueTensor))
	if err := tensor.Decode(x, outputs[0].Bytes(), tensor.F32); err != nil {
		t.Fatal(err)
	}
	return r, x
}

func open(t *testing.T, w *worker, log *[]byte, result *message.Result) *message.Receipt {
	t.Helper()
	if !result.Verify(w.key.Public().(ed25519.PublicKey)) {
		t.Error("the signature does not hold")
	}
	r, err := result.Open()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(r.GetPrevious(), *log) {
		t.Error("the receipt does not continue the log")
	}
	*log = message.HashBytes(result.GetReceipt())
	return r
}

func TestEveryKindSignsALieThatContinuesItsLog(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			w := newWorker()
			a, err := Wrap(run(), k.name, 1, 1, w.key, w)
			if err != nil {
				t.Fatal(err)
			}
			var log []byte
			honest := task(message.TaskKind_LOAD, 0)
			if _, x := do(t, w, a, &log, honest); !slices.Equal(x, trueTensor) {
				t.Errorf("a load gives %v", x)
			}
			do(t, w, a, &log, task(k.tasks[0], 1))
			if k.copies { // from what it reduces
				result, _, _ := a.Do(task(message.TaskKind_REDUCE, 1), [][]byte{encoded(9, 9, 9, 9)})
				open(t, w, &log, result)
			}
			w.x[1]++ // stale ones differ from now on
			bad := task(k.tasks[0], 2)
			r, x := do(t, w, a, &log, bad)
			switch {
			case k.ignores:
				if r != nil {
					t.Error("the task was not ignored")
				}
				return
			case k.lags:
				if !slices.Equal(x, w.x) {
					t.Errorf("a slow miner gives %v", x)
				}
				return
			case k.unfit:
				if r.GetSources()[0].GetFinite() == r.GetSources()[1].GetFinite() || !slices.Equal(x, w.x) {
					t.Errorf("%v of result %v: one source is to be called unfit", r.GetSources(), x)
				}
			case k.answer != nil:
				if slices.ContainsFunc(r.GetReplayed(), func(found *message.Receipt) bool { return len(found.GetState()) != 32 }) {
					t.Errorf("the answer is %v: it is to be made up", r.GetReplayed())
				}
			case slices.Equal(x, w.x):
				t.Error("nothing was changed")
			}
			results, _ := a.Acknowledge(nil)
			open(t, w, &log, results[0])
			if _, x := do(t, w, a, &log, task(message.TaskKind_INSTALL, 0)); !slices.Equal(x, w.x) {
				t.Errorf("an install gives %v", x)
			}
			first, _, _ := a.Do(bad, nil)
			again, _, _ := a.Do(bad, nil)
			if !bytes.Equal(first.GetReceipt(), again.GetReceipt()) {
				t.Error("a task sent again gives another result")
			}
		})
	}
}

func TestLiesAreWhatTheirNameSays(t *testing.T) {
	lie := func(kind string, k message.TaskKind, seed uint64) []float32 {
		w := newWorker()
		a, err := Wrap(run(), kind, 1, seed, w.key, w)
		if err != nil {
			t.Fatal(err)
		}
		var log []byte
		_, x := do(t, w, a, &log, task(k, 1))
		return x
	}
	if x := lie("zero", message.TaskKind_FORWARD, 1); !slices.Equal(x, []float32{0, 0, 0, 0}) {
		t.Errorf("zero: %v", x)
	}
	if x := lie("scale", message.TaskKind_SHARE, 1); !slices.Equal(x, []float32{10, -20, 30, 5}) {
		t.Errorf("scale: %v", x)
	}
	if x := lie("sign-flip", message.TaskKind_BACKWARD, 1); !slices.Equal(x, []float32{-1, 2, -3, -0.5}) {
		t.Errorf("sign-flip: %v", x)
	}
	if x := lie("nan", message.TaskKind_LOSS, 1); !slices.ContainsFunc(x, func(v float32) bool { return math.IsNaN(float64(v)) }) {
		t.Errorf("nan: %v", x)
	}
	if x := lie("backward-noise", message.TaskKind_FORWARD, 1); !slices.Equal(x, trueTensor) {
		t.Errorf("backward-noise changes a forward: %v", x)
	}
	if slices.Equal(lie("bad-reduce", message.TaskKind_REDUCE, 1), lie("bad-reduce", message.TaskKind_REDUCE, 2)) {
		t.Error("two bad reducers agree")
	}
	if !slices.Equal(lie("collude-reduce", message.TaskKind_REDUCE, 1), lie("collude-reduce", message.TaskKind_REDUCE, 2)) {
		t.Error("two colluders differ")
	}
}

// encoded is a tensor as a blob has it.
func encoded(x ...float32) []byte { return tensor.Encode(nil, x, tensor.F32, 0) }

func TestACopierGivesWhatItReducedForOthersAndNotItsOwn(t *testing.T) {
	w := newWorker()
	a, err := Wrap(run(), "copy", 1, 1, w.key, w)
	if err != nil {
		t.Fatal(err)
	}
	var log []byte
	if _, x := do(t, w, a, &log, task(message.TaskKind_SHARE, 1)); !slices.Equal(x, trueTensor) {
		t.Errorf("before it reduced anything it gives %v", x)
	}
	another := []float32{5, 6, 7, 8}
	result, _, _ := a.Do(task(message.TaskKind_REDUCE, 1), [][]byte{nil, encoded(trueTensor...), encoded(another...), encoded(9, 9, 9, 9)})
	open(t, w, &log, result)
	if _, x := do(t, w, a, &log, task(message.TaskKind_SHARE, 2)); !slices.Equal(x, another) {
		t.Errorf("it gives %v, want the first share that is not its own", x)
	}
}

func TestRateIsTheShareOfTasks(t *testing.T) {
	w := newWorker()
	a, err := Wrap(run(), "zero", 0.25, 3, w.key, w)
	if err != nil {
		t.Fatal(err)
	}
	var log []byte
	lies := 0
	for i := range uint64(400) {
		if _, x := do(t, w, a, &log, task(message.TaskKind_FORWARD, i)); x[0] == 0 {
			lies++
		}
	}
	if lies < 70 || lies > 130 {
		t.Errorf("%d of 400 tasks are lies, want about 100", lies)
	}
}

func TestAnInjectedFaultDropsWhatTheWorkerHolds(t *testing.T) {
	w := newWorker()
	a := New(run(), w.key, w)
	if err := a.Times("fault", 1, 1); err != nil {
		t.Fatal(err)
	}
	var log []byte
	r, _ := do(t, w, a, &log, task(message.TaskKind_BACKWARD, 1))
	if r.GetFault() != message.Fault_NON_FINITE_OWN || w.dropped != 1 {
		t.Errorf("fault %v, %d dropped", r.GetFault(), w.dropped)
	}
	if r, _ := do(t, w, a, &log, task(message.TaskKind_BACKWARD, 2)); r.GetFault() != message.Fault_FAULT_NONE {
		t.Errorf("the next one is at fault too: %v", r.GetFault())
	}
	if a.AcksSeen() != 7 || string(a.Save()) != "state" {
		t.Error("the worker does not show through")
	}
}

func TestAFalseClaimIsAFaultOfTheInput(t *testing.T) {
	for kind, want := range map[string]message.Fault{
		"false-nan": message.Fault_NON_FINITE_INPUT, "false-missing": message.Fault_MISSING_INPUT,
	} {
		w := newWorker()
		a, err := Wrap(run(), kind, 1, 1, w.key, w)
		if err != nil {
			t.Fatal(err)
		}
		var log []byte
		if r, x := do(t, w, a, &log, task(message.TaskKind_LOSS, 1)); r.GetFault() != want || x != nil || w.dropped != 1 {
			t.Errorf("%s: fault %v, tensor %v, %d dropped", kind, r.GetFault(), x, w.dropped)
		}
	}
}

func TestUnknownKindsAndRatesAreErrors(t *testing.T) {
	w := newWorker()
	if _, err := Wrap(run(), "nice", 1, 1, w.key, w); err == nil {
		t.Error("an unknown kind is accepted")
	}
	for _, rate := range []float64{-0.1, 1.5, math.NaN()} {
		if _, err := Wrap(run(), "zero", rate, 1, w.key, w); err == nil {
			t.Errorf("rate %v is accepted", rate)
		}
	}
	for _, n := range []int{0, 1, 63, 64, 65, 200} {
		for _, dt := range []tensor.DType{tensor.F32, tensor.BF16, tensor.Int8} {
			if got := elements(tensor.EncodedSize(n, dt), dt); got != n {
				t.Errorf("%s: %d elements, want %d", dt, got, n)
			}
		}
	}
}
