package miner

import (
	"crypto/ed25519"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/aggregate"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// crammed is a miner of a stage that is made to hold all that the rules let it hold.
type crammed struct {
	*Miner
	t     testing.TB
	index int // of the stage
	wire  []byte
	batch uint64
	acked uint64
	kept  [][]byte
}

// order does a task with the same wire as every input.
func (c *crammed) order(task *message.Task, inputs int) (*message.Receipt, []message.Blob) {
	c.t.Helper()
	var blobs [][]byte
	for range inputs {
		blobs = append(blobs, c.wire)
	}
	return c.orderWith(task, blobs)
}

func (c *crammed) orderWith(task *message.Task, blobs [][]byte) (*message.Receipt, []message.Blob) {
	c.t.Helper()
	task.Id.Stage, task.Id.Batch, task.Id.Epoch = uint32(c.index), c.batch%60, c.epoch
	c.batch++
	for _, b := range blobs {
		task.Inputs = append(task.Inputs, message.NewBlob(b).Ref())
	}
	result, outputs, err := c.Do(task, blobs)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := result.Open()
	if err != nil || r.GetFault() != message.Fault_FAULT_NONE {
		c.t.Fatal(err, r.GetFault(), r.GetNote())
	}
	return r, outputs
}

func (c *crammed) task(kind message.TaskKind) *message.Task {
	return &message.Task{Id: &message.TaskID{Kind: kind}, RateBits: math.Float32bits(testRate)}
}

// gradient makes one gradient, whose forward is rerun for a stage that has slots.
func (c *crammed) gradient(passing bool) {
	c.t.Helper()
	task, inputs := c.task(message.TaskKind_LOSS), 1
	if !c.last() {
		task, inputs = c.task(message.TaskKind_BACKWARD), 2
		task.Rerun = true
	}
	if c.first() {
		inputs--
	}
	task.Passing = passing
	c.order(task, inputs)
}

// step acknowledges the oldest gradient.
func (c *crammed) step() {
	c.t.Helper()
	c.acked++
	oldest := c.waiting[0].name
	if _, err := c.Acknowledge(&message.Ack{Task: oldest.Key.ID(), Attempt: oldest.attempt, Number: c.acked}); err != nil {
		c.t.Fatal(err)
	}
}

// cram fills slots with micro-batches of different weights, the queue with gradients, and the log with results.
func (c *crammed) cram() {
	c.t.Helper()
	c.order(c.task(message.TaskKind_LOAD), 0)
	wires := 1
	if c.first() {
		wires = 0
	}
	c.gradient(false)
	c.step()
	for range c.rules.slots {
		c.gradient(false)
		if !c.last() {
			c.order(c.task(message.TaskKind_FORWARD), wires)
		}
		c.step()
	}
	for len(c.waiting) < c.rules.queue() {
		c.gradient(false)
	}
	c.gradient(true)
	for range kept(c.rules.slots) {
		if c.last() {
			c.gradient(true)
		} else {
			c.order(c.task(message.TaskKind_EVALUATE), wires)
		}
	}
}

// merge goes through a merge alone, up to the checkpoint and the private state of the next epoch.
func (c *crammed) merge() {
	c.t.Helper()
	plan := &message.Plan{Epoch: c.epoch, Stage: uint32(c.index), Members: [][]byte{{1}}, First: []uint32{0}, Second: []uint32{0},
		Bounds: []uint64{0, uint64(c.size)}}
	share, reduce, install := c.task(message.TaskKind_SHARE), c.task(message.TaskKind_REDUCE), c.task(message.TaskKind_INSTALL)
	share.Plan, reduce.Plan, install.Plan = plan, plan, plan
	reduce.Weights = []uint64{1}
	_, shares := c.order(share, 0)
	_, merged := c.orderWith(reduce, [][]byte{shares[0].Bytes()})
	c.batch = 0
	c.orderWith(install, [][]byte{merged[0].Bytes()})
	c.order(c.task(message.TaskKind_UPLOAD), 0)
	c.kept = append(c.kept, c.Save())
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestAMinerTakesWhatMemorySays measures a miner that holds as much as it ever does, in training and in a merge.
func TestAMinerTakesWhatMemorySays(t *testing.T) {
	for _, rules := range []struct {
		share     string
		recompute bool
		optimizer string
		boundary  string
		aggregate string
	}{
		{"f32", false, adamW, model.Bottleneck, aggregate.Mean}, {"bf16", true, adamW, model.None, aggregate.TrimmedMean},
		{"int8", false, sgd, model.SSN, aggregate.GeometricMedian},
	} {
		shape := testManifest(t, func(m *message.Manifest) {
			c, err := model.Preset("tiny")
			if err != nil {
				t.Fatal(err)
			}
			m.Model = manifest.Model(c)
			m.Model.Batch, m.Model.SeqLen, m.Model.Cuts, m.Model.Boundary = 1, 32, []uint32{1, 1, 1}, rules.boundary
			m.Rules.MaxSlots, m.Rules.Share, m.Rules.Recompute, m.Rules.InnerOptimizer = 2, rules.share, rules.recompute, rules.optimizer
			m.Rules.Aggregate = rules.aggregate
		})
		for stage := range 3 {
			t.Run(fmt.Sprintf("%s/recompute=%v/%s/stage=%d", rules.share, rules.recompute, rules.optimizer, stage), func(t *testing.T) {
				c := manifest.Shape(shape)
				wire := tensor.Encode(nil, make([]float32, c.Rows()*c.WireWidth()), tensor.DType(c.Wire), 0)
				engine, text := kernel.New(1), sampleText()
				start := func() *crammed {
					m, err := New(shape, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), nil, text, engine)
					if err != nil {
						t.Fatal(err)
					}
					return &crammed{Miner: m, t: t, index: stage, wire: wire}
				}
				warm := start() // the engine's own memory
				warm.order(warm.task(message.TaskKind_LOAD), 0)
				warm.gradient(false)
				warm = nil
				before, m := heap(), start()
				m.cram()
				need := MemoryOf(c, shape.Rules, stage, 1, 1)
				near(t, "in training", heap()-before, need.training())
				m.merge()
				near(t, "after a merge", heap()-before, need.Total())
				runtime.KeepAlive(m)
			})
		}
	}
}

func near(t *testing.T, when string, got, want int) {
	t.Helper()
	if d := math.Abs(float64(got-want)) / float64(want); d > 0.05 {
		t.Errorf("%s: %d bytes, the formula says %d", when, got, want)
	} else {
		t.Logf("%s: %d bytes, the formula says %d, %.1f %% off", when, got, want, 100*d)
	}
}

// TestTrainingAllocatesWhatItGivesAway lets through encoded wires, which belong to whoever stores them, and receipts.
func TestTrainingAllocatesWhatItGivesAway(t *testing.T) {
	for _, recompute := range []bool{false, true} {
		shape := testManifest(t, func(m *message.Manifest) {
			m.Model.Width, m.Model.Batch, m.Model.SeqLen = 64, 2, 32
			m.Rules.CommitEvery, m.Rules.Recompute = 1000, recompute
		})
		n := newNetwork(t, shape, 1)
		for range 2 {
			n.train(n.column(0))
		}
		const batches = 4
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range batches {
			n.train(n.column(0))
		}
		runtime.ReadMemStats(&after)
		blobs, got := 4*4*64*2*32, int(after.TotalAlloc-before.TotalAlloc)/batches
		if rest := got - blobs; rest > 32<<10 {
			t.Errorf("recompute %v: %d bytes per micro-batch besides those of %d in blobs", recompute, rest, blobs)
		} else {
			t.Logf("recompute %v: %d bytes per micro-batch besides those of %d in blobs", recompute, rest, blobs)
		}
	}
}
