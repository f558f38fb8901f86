package miner

import (
	"bytes"
	"crypto/ed25519"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
)

// store keeps a blob and names it.
func (n *network) store(blob []byte) *message.BlobRef {
	ref := message.NewBlob(blob).Ref()
	n.blobs[string(ref.Hash)] = blob
	return ref
}

// wire is a wire of zeros with its first number replaced.
func (n *network) wire(first float32) *message.BlobRef {
	c := n.miners[0][0].config
	x := make([]float32, c.Rows()*c.WireWidth())
	x[0] = first
	return n.store(tensor.Encode(nil, x, tensor.DType(c.Wire), 0))
}

// fault does a task and returns the fault of its result.
func (n *network) fault(m *Miner, task *message.Task) message.Fault {
	n.t.Helper()
	r, outputs, err := n.try(m, task)
	if err != nil {
		n.t.Fatal(err)
	}
	if r.Fault != message.Fault_FAULT_NONE && (len(outputs) > 0 || len(r.Outputs) > 0) {
		n.t.Fatalf("%s: fault %s with outputs", task.Id.Key(), r.Fault)
	}
	return r.Fault
}

func TestANumberThatIsNotFiniteOnArrivalIsItsSendersFault(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		n := newNetwork(t, testManifest(t, nil), 1)
		n.train(n.column(0))
		mid := n.miners[1][0]
		before := slices.Clone(mid.current.w)
		for _, task := range []*message.Task{
			{Id: n.id(message.TaskKind_FORWARD, 9, 1), Inputs: []*message.BlobRef{n.wire(bad)}},
			{Id: n.id(message.TaskKind_EVALUATE, 9, 1), Inputs: []*message.BlobRef{n.wire(bad)}},
			{Id: n.id(message.TaskKind_BACKWARD, 9, 1), Inputs: []*message.BlobRef{n.wire(bad)}},
			{Id: n.id(message.TaskKind_BACKWARD, 9, 1), Attempt: 1, Rerun: true, Inputs: []*message.BlobRef{n.wire(0), n.wire(bad)}},
		} {
			if f := n.fault(mid, task); f != message.Fault_NON_FINITE_INPUT {
				t.Errorf("%s with %v: fault %s", task.Id.Key(), bad, f)
			}
		}
		if !slices.Equal(before, mid.current.w) || len(mid.slots) > 0 || len(mid.waiting) > 0 {
			t.Errorf("%v in an input left a trace in the miner", bad)
		}
	}
}

func TestAMinerWhoseOwnNumbersOverflowGoesBackToTheEpochsStart(t *testing.T) {
	n := newNetwork(t, testManifest(t, nil), 1)
	n.train(n.column(0))
	m := n.miners[0][0]
	start, saved := slices.Clone(m.start.w), slices.Clone(m.saved.m)
	w := m.writable()
	for _, p := range m.stage.Params() {
		for i := range p.Size {
			if strings.Contains(p.Name, "mlp") {
				w[p.Offset+i] = 1e30
			}
		}
	}
	task := func(batch uint64) *message.Task { return &message.Task{Id: n.id(message.TaskKind_FORWARD, batch, 0)} }
	if f := n.fault(m, task(50)); f != message.Fault_NON_FINITE_OWN {
		t.Fatalf("fault %s", f)
	}
	if !slices.Equal(m.current.w, start) || !slices.Equal(m.private.m, saved) || m.private.t != 0 {
		t.Error("weights and moments are not those of the epoch's start")
	}
	if f := n.fault(m, task(51)); f != message.Fault_FAULT_NONE {
		t.Errorf("afterwards: fault %s", f)
	}
	m.Drop(n.id(message.TaskKind_FORWARD, 51, 0), 0)
	n.train(n.column(0))
	n.merge()
}

func TestATaskSentAgainGivesTheSameResult(t *testing.T) {
	n := newNetwork(t, testManifest(t, nil), 1)
	m := n.miners[0][0]
	task := &message.Task{Id: n.id(message.TaskKind_FORWARD, 3, 0), Attempt: 2}
	first, blobs, err := m.Do(task, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, blobsAgain, err := m.Do(task, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Receipt, again.Receipt) || !bytes.Equal(first.Signature, again.Signature) || !bytes.Equal(blobs[0].Bytes(), blobsAgain[0].Bytes()) {
		t.Error("the second result is another one")
	}
	if len(m.slots) != 1 {
		t.Errorf("%d slots are taken", len(m.slots))
	}
	for i := range 100 {
		n.do(m, &message.Task{Id: n.id(message.TaskKind_EVALUATE, uint64(i%64), 0), Attempt: uint32(i)})
	}
	if len(m.log.kept) > m.log.most {
		t.Errorf("%d results are kept", len(m.log.kept))
	}
}

func TestAcknowledgementsCountOnceAndInOrder(t *testing.T) {
	n := newNetwork(t, testManifest(t, func(m *message.Manifest) { m.Rules.MicroBatchesPerStep = 2 }), 1)
	m := n.miners[2][0]
	loss := func(batch uint64) *message.Receipt {
		return n.do(m, &message.Task{Id: n.id(message.TaskKind_LOSS, batch, 2), Inputs: []*message.BlobRef{n.wire(1)}})
	}
	ack := func(r *message.Receipt, number uint64) ([]*message.Result, error) {
		return m.Acknowledge(&message.Ack{Task: r.Task, Attempt: r.Attempt, Number: number})
	}
	a, b := loss(1), loss(2)
	if _, err := ack(b, 2); err == nil {
		t.Error("a gap was accepted")
	}
	for range 2 {
		if results, err := ack(b, 1); err != nil || results != nil {
			t.Fatalf("acknowledge: %v, %v", results, err)
		}
	}
	if len(m.summed) != 1 || m.AcksSeen() != 1 {
		t.Fatalf("%d gradients summed, %d acknowledgements seen", len(m.summed), m.AcksSeen())
	}
	if _, err := ack(&message.Receipt{Task: n.id(message.TaskKind_LOSS, 7, 2)}, 2); err == nil {
		t.Error("a gradient that is not there was accepted")
	}
	results, err := ack(a, 2)
	if err != nil || len(results) != 1 {
		t.Fatalf("the step: %v, %v", results, err)
	}
	r := n.note(m, results[0])
	if got := []uint64{r.Summed[0].Batch, r.Summed[1].Batch}; !slices.Equal(got, []uint64{2, 1}) || r.Task.Batch != 1 || r.GradientNorm <= 0 {
		t.Errorf("step %d of %v with norm %v", r.Task.Batch, got, r.GradientNorm)
	}
	old := a.Task
	n.epoch++
	if results, err := m.Acknowledge(&message.Ack{Task: old, Number: 1}); results != nil || err != nil {
		t.Error("an old acknowledgement is not ignored")
	}
	if _, err := m.Acknowledge(&message.Ack{Task: n.id(message.TaskKind_LOSS, 1, 2), Number: 3}); err == nil {
		t.Error("an acknowledgement of the next epoch was accepted")
	}
}

func TestOrdersThatMakeNoSenseAreErrorsAndChangeNothing(t *testing.T) {
	n := newNetwork(t, testManifest(t, nil), 1)
	n.train(n.column(0))
	mid := n.miners[1][0]
	good, short := n.wire(1), n.store([]byte{1, 2, 3})
	plan := n.plan(1)
	broken := n.plan(1)
	broken.Bounds[1]--
	for name, task := range map[string]*message.Task{
		"no id":                  {},
		"unknown kind":           {Id: n.id(99, 0, 1)},
		"none":                   {Id: n.id(message.TaskKind_TASK_NONE, 0, 1)},
		"step":                   {Id: n.id(message.TaskKind_STEP, 0, 1)},
		"other stage":            {Id: n.id(message.TaskKind_FORWARD, 0, 0)},
		"other epoch":            {Id: &message.TaskID{Kind: message.TaskKind_FORWARD, Epoch: 4, Stage: 1}, Inputs: []*message.BlobRef{good}},
		"loss in the middle":     {Id: n.id(message.TaskKind_LOSS, 0, 1), Inputs: []*message.BlobRef{good}},
		"no wire":                {Id: n.id(message.TaskKind_FORWARD, 0, 1)},
		"two wires":              {Id: n.id(message.TaskKind_FORWARD, 0, 1), Inputs: []*message.BlobRef{good, good}},
		"short wire":             {Id: n.id(message.TaskKind_FORWARD, 0, 1), Inputs: []*message.BlobRef{short}},
		"short gradient":         {Id: n.id(message.TaskKind_BACKWARD, 0, 1), Inputs: []*message.BlobRef{short}},
		"no gradient":            {Id: n.id(message.TaskKind_BACKWARD, 0, 1)},
		"rerun without its wire": {Id: n.id(message.TaskKind_BACKWARD, 0, 1), Rerun: true, Inputs: []*message.BlobRef{good}},
		"evaluate too far":       {Id: n.id(message.TaskKind_EVALUATE, 64, 1), Inputs: []*message.BlobRef{good}},
		"load of no stage":       {Id: n.id(message.TaskKind_LOAD, 0, 3)},
		"load of nonsense":       {Id: n.id(message.TaskKind_LOAD, 0, 1), Inputs: []*message.BlobRef{short}},
		"load at rate NaN":       {Id: n.id(message.TaskKind_LOAD, 0, 1), RateBits: 0x7fc00000},
		"share without a plan":   {Id: n.id(message.TaskKind_SHARE, 0, 1)},
		"share by a broken plan": {Id: n.id(message.TaskKind_SHARE, 0, 1), Plan: broken},
		"share by another plan":  {Id: n.id(message.TaskKind_SHARE, 0, 1), Plan: n.plan(2)},
		"reduce of nothing":      {Id: n.id(message.TaskKind_REDUCE, 0, 1), Plan: plan},
		"reduce without weights": {Id: n.id(message.TaskKind_REDUCE, 0, 1), Plan: plan, Inputs: []*message.BlobRef{good}},
		"install of nothing":     {Id: n.id(message.TaskKind_INSTALL, 0, 1), Plan: plan},
		"install of a short one": {Id: n.id(message.TaskKind_INSTALL, 0, 1), Plan: plan, Inputs: []*message.BlobRef{short}},
		"outer without a plan":   {Id: n.id(message.TaskKind_OUTER, 0, 1)},
		"outer of nonsense":      {Id: n.id(message.TaskKind_OUTER, 0, 1), Plan: plan, Inputs: []*message.BlobRef{short, short}},
	} {
		t.Run(name, func(t *testing.T) {
			before := []any{mid.step, mid.epoch, mid.closed, len(mid.slots), len(mid.waiting), string(mid.log.previous), mid.current}
			task.Attempt = 9
			inputs := [][]byte{}
			for _, ref := range task.Inputs {
				inputs = append(inputs, n.blobs[string(ref.Hash)])
			}
			if r, _, err := mid.Do(task, inputs); err == nil {
				t.Errorf("it was done: %v", r)
			} else if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %v", err)
			}
			after := []any{mid.step, mid.epoch, mid.closed, len(mid.slots), len(mid.waiting), string(mid.log.previous), mid.current}
			if !slices.Equal(before, after) {
				t.Errorf("it left a trace: %v, then %v", before, after)
			}
		})
	}
	if _, _, err := mid.Do(&message.Task{Id: n.id(message.TaskKind_FORWARD, 8, 1), Inputs: []*message.BlobRef{good}}, [][]byte{{1}}); err == nil {
		t.Error("an input of another size than its reference was accepted")
	}
	n.train(n.column(0))
}

func TestWorkThatCannotBeDoneNowIsAFault(t *testing.T) {
	n := newNetwork(t, testManifest(t, nil), 1)
	first, mid, last := n.miners[0][0], n.miners[1][0], n.miners[2][0]
	result, _, err := mid.Do(&message.Task{Id: n.id(message.TaskKind_FORWARD, 0, 1), Inputs: []*message.BlobRef{n.wire(1)}}, [][]byte{nil})
	if err != nil {
		t.Fatal(err)
	}
	if r := n.note(mid, result); r.Fault != message.Fault_MISSING_INPUT {
		t.Errorf("a missing input: fault %s", r.Fault)
	}
	back := &message.Task{Id: n.id(message.TaskKind_BACKWARD, 0, 0), Inputs: []*message.BlobRef{n.wire(1)}}
	if f := n.fault(first, back); f != message.Fault_FAILED {
		t.Errorf("a backward without its forward: fault %s", f)
	}
	for i := range uint64(4) {
		n.do(first, &message.Task{Id: n.id(message.TaskKind_FORWARD, i, 0)})
	}
	n.do(first, &message.Task{Id: n.id(message.TaskKind_FORWARD, 4, 0)})
	if len(first.slots) != 4 || first.slotOf(0) >= 0 || first.slotOf(4) < 0 {
		t.Error("a fifth slot of four does not take the place of the oldest")
	}
	for i := range uint64(last.rules.queue()) {
		n.do(last, &message.Task{Id: n.id(message.TaskKind_LOSS, i, 2), Inputs: []*message.BlobRef{n.wire(1)}})
	}
	loss := &message.Task{Id: n.id(message.TaskKind_LOSS, 99, 2), Inputs: []*message.BlobRef{n.wire(1)}}
	if f := n.fault(last, loss); f != message.Fault_FAILED {
		t.Errorf("a full queue: fault %s", f)
	}
	last.Drop(nil, 0)
	loss.Attempt++
	n.do(last, loss)
}

func TestABadManifestKeyOrTextIsRefused(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	for name, edit := range map[string]func(*message.Manifest){
		"numerics":  func(m *message.Manifest) { m.Numerics = "go-f32-0" },
		"text":      func(m *message.Manifest) { m.Data.Hash = make([]byte, 32) },
		"share":     func(m *message.Manifest) { m.Rules.Share = "f16" },
		"optimizer": func(m *message.Manifest) { m.Rules.InnerOptimizer = "lion" },
		"slots":     func(m *message.Manifest) { m.Rules.MaxSlots = 0 },
		"boundary":  func(m *message.Manifest) { m.Model.Boundary = "wall" },
		"vocab":     func(m *message.Manifest) { m.Model.Vocab = 128 },
		"no rules":  func(m *message.Manifest) { m.Rules = nil },
		"no model":  func(m *message.Manifest) { m.Model = nil },
	} {
		if _, err := New(testManifest(t, edit), key, nil, sampleText(), kernel.New(1)); err == nil {
			t.Errorf("bad %s was accepted", name)
		}
	}
	for _, numerics := range []kernel.Numerics{kernel.F32, kernel.BF16} {
		m := testManifest(t, func(m *message.Manifest) { m.Numerics = string(numerics) })
		for _, engine := range []*kernel.Engine{kernel.NewFor(kernel.F32, 1), kernel.NewFor(kernel.BF16, 1)} {
			_, err := New(m, key, nil, sampleText(), engine)
			if equal := engine.Numerics() == numerics; equal != (err == nil) {
				t.Errorf("a run of %s with an engine of %s: %v", numerics, engine.Numerics(), err)
			}
			if _, replayed := Replay(m, sampleText(), engine, nil, nil, nil); (err == nil) != (replayed == nil) {
				t.Errorf("replay of a run of %s with an engine of %s: %v", numerics, engine.Numerics(), replayed)
			}
		}
	}
	if _, err := New(testManifest(t, nil), key[:5], nil, sampleText(), kernel.New(1)); err == nil {
		t.Error("a short key was accepted")
	}
}
