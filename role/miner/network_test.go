package miner

import (
	"crypto/ed25519"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

var sampleText = sync.OnceValue(func() *data.Dataset {
	tokenizer, err := data.NewTokenizer(data.Bytes)
	if err != nil {
		panic(err)
	}
	text, err := data.FromTexts(tokenizer, []byte(strings.Repeat("The state of the union is the subject of this text. ", 400)))
	if err != nil {
		panic(err)
	}
	return text
})

const testRate = 3e-3

// testManifest is the nano model over 3 stages, boundary none and f32, unless edit says otherwise.
func testManifest(t testing.TB, edit func(*message.Manifest)) *message.Manifest {
	t.Helper()
	c, err := model.Preset("nano")
	if err != nil {
		t.Fatal(err)
	}
	hash := sampleText().Hash()
	m := &message.Manifest{
		Run: "test", Preset: "nano", Numerics: string(kernel.F32),
		Model: &message.Model{
			Vocab: uint32(c.Vocab), Width: uint32(c.Width), Heads: uint32(c.Heads), KvHeads: uint32(c.KVHeads), Ffn: uint32(c.FFN),
			SeqLen: uint32(c.SeqLen), Batch: uint32(c.Batch), Cuts: []uint32{1, 1, 1}, RopeTheta: c.RopeTheta,
			Boundary: model.None, BoundaryWidth: uint32(c.BoundaryWidth), Wire: "f32",
		},
		Data:  &message.Data{Tokenizer: data.Bytes, Hash: hash[:], Seed: 7},
		Rules: manifest.DefaultRules(),
	}
	m.Model.SeqLen, m.Model.Batch = 12, 2 // enough for every law, and quick in portable code too
	m.Rules.CommitEvery, m.Rules.MaxSlots = 2, 4
	m.Rules.OuterRate, m.Rules.OuterMomentum = 1, 0
	if edit != nil {
		edit(m)
	}
	return m
}

// network is miners by stage and number, what they stored, and what they wrote down.
type network struct {
	t        testing.TB
	manifest *message.Manifest
	miners   [][]*Miner
	logs     map[*Miner][]*message.Receipt
	blobs    map[string][]byte
	acks     map[*Miner]uint64
	epoch    uint64
	batch    uint64
}

// newNetwork starts so many miners in each stage and loads the initial weights.
func newNetwork(t testing.TB, manifest *message.Manifest, perStage int) *network {
	t.Helper()
	n := &network{
		t: t, manifest: manifest, logs: map[*Miner][]*message.Receipt{}, blobs: map[string][]byte{}, acks: map[*Miner]uint64{},
	}
	for stage := range manifest.Model.Cuts {
		n.miners = append(n.miners, nil)
		for i := range perStage {
			m := newMiner(t, manifest, byte(10*stage+i))
			n.miners[stage] = append(n.miners[stage], m)
			n.do(m, &message.Task{Id: n.id(message.TaskKind_LOAD, 0, stage), RateBits: math.Float32bits(testRate)})
		}
	}
	return n
}

func newMiner(t testing.TB, manifest *message.Manifest, seed byte) *Miner {
	t.Helper()
	key := make([]byte, ed25519.SeedSize)
	key[0] = seed
	m, err := New(manifest, ed25519.NewKeyFromSeed(key), []byte{seed}, sampleText(), kernel.New(1))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (n *network) id(kind message.TaskKind, batch uint64, stage int) *message.TaskID {
	return &message.TaskID{Kind: kind, Epoch: n.epoch, Batch: batch, Stage: uint32(stage)}
}

// try does a task with inputs from the store and notes its result.
func (n *network) try(m *Miner, task *message.Task) (*message.Receipt, []message.Blob, error) {
	n.t.Helper()
	var inputs [][]byte
	for _, ref := range task.Inputs {
		blob, ok := n.blobs[string(ref.GetHash())]
		if !ok && ref.GetSize() > 0 {
			n.t.Fatalf("%s: input %x is not stored", task.Id.Key(), ref.GetHash())
		}
		inputs = append(inputs, blob)
	}
	result, outputs, err := m.Do(task, inputs)
	if err != nil {
		return nil, nil, err
	}
	for _, blob := range outputs {
		n.blobs[string(blob.Ref().GetHash())] = blob.Bytes()
	}
	return n.note(m, result), outputs, nil
}

// do is try for work that must succeed.
func (n *network) do(m *Miner, task *message.Task) *message.Receipt {
	n.t.Helper()
	r, _, err := n.try(m, task)
	if err != nil {
		n.t.Fatal(err)
	}
	if r.Fault != message.Fault_FAULT_NONE {
		n.t.Fatalf("%s: fault %s: %s", task.Id.Key(), r.Fault, r.Note)
	}
	return r
}

// note opens a result, checks its place in the chain and keeps it.
func (n *network) note(m *Miner, result *message.Result) *message.Receipt {
	n.t.Helper()
	if !result.Verify(m.log.key.Public().(ed25519.PublicKey)) {
		n.t.Fatal("a result with a bad signature")
	}
	r, err := result.Open()
	if err != nil {
		n.t.Fatal(err)
	}
	n.logs[m] = append(n.logs[m], r)
	return r
}

func (n *network) ack(m *Miner, r *message.Receipt) []*message.Receipt {
	n.t.Helper()
	n.acks[m]++
	results, err := m.Acknowledge(&message.Ack{Task: r.Task, Attempt: r.Attempt, Number: n.acks[m]})
	if err != nil {
		n.t.Fatal(err)
	}
	var receipts []*message.Receipt
	for _, result := range results {
		receipts = append(receipts, n.note(m, result))
	}
	return receipts
}

// train sends one micro-batch along a pathway and back, and returns its loss.
func (n *network) train(pathway []*Miner) float64 {
	n.t.Helper()
	batch := n.batch
	n.batch++
	var wire []*message.BlobRef
	last := len(pathway) - 1
	for stage, m := range pathway[:last] {
		wire = n.do(m, &message.Task{Id: n.id(message.TaskKind_FORWARD, batch, stage), Inputs: wire}).Outputs
	}
	r := n.do(pathway[last], &message.Task{Id: n.id(message.TaskKind_LOSS, batch, last), Inputs: wire})
	n.ack(pathway[last], r)
	loss := math.Float64frombits(r.LossBits)
	for stage := last - 1; stage >= 0; stage-- {
		r = n.do(pathway[stage], &message.Task{Id: n.id(message.TaskKind_BACKWARD, batch, stage), Inputs: r.Outputs})
		n.ack(pathway[stage], r)
	}
	return loss
}

// column returns miner i of every stage.
func (n *network) column(i int) []*Miner {
	var c []*Miner
	for _, miners := range n.miners {
		c = append(c, miners[i])
	}
	return c
}

// plan maps shards to pairs in order.
func (n *network) plan(stage int) *message.Plan {
	size, miners := n.miners[0][0].config.StageSize(stage), len(n.miners[stage])
	p := &message.Plan{Epoch: n.epoch, Stage: uint32(stage)}
	for i := range miners {
		p.Members = append(p.Members, []byte{byte(i)})
		for j := range i {
			p.First, p.Second = append(p.First, uint32(j)), append(p.Second, uint32(i))
		}
	}
	if miners == 1 {
		p.First, p.Second = []uint32{0}, []uint32{0}
	}
	for s := range len(p.First) + 1 {
		p.Bounds = append(p.Bounds, uint64(s*size/len(p.First)))
	}
	return p
}

// merge ends the epoch: share, reduce, install. It checks that owners agree and that all replicas are equal after.
func (n *network) merge() {
	n.t.Helper()
	for stage, miners := range n.miners {
		plan := n.plan(stage)
		var shares [][]*message.BlobRef
		var weights []uint64
		for _, m := range miners {
			shares = append(shares, n.do(m, &message.Task{Id: n.id(message.TaskKind_SHARE, 0, stage), Plan: plan}).Outputs)
			weights = append(weights, max(1, n.acks[m]))
		}
		var merged []*message.BlobRef
		for shard := range plan.First {
			task := &message.Task{Id: n.id(message.TaskKind_REDUCE, 0, stage), Plan: plan, Weights: weights}
			task.Id.Shard = uint32(shard)
			for _, s := range shares {
				task.Inputs = append(task.Inputs, s[shard])
			}
			a := n.do(miners[plan.First[shard]], task)
			b := n.do(miners[plan.Second[shard]], task)
			if !a.Outputs[0].Same(b.Outputs[0]) {
				n.t.Fatalf("stage %d: the owners of shard %d disagree", stage, shard)
			}
			merged = append(merged, a.Outputs[0])
		}
		n.install(stage, plan, merged)
	}
	n.epoch++
	clear(n.acks)
}

func (n *network) install(stage int, plan *message.Plan, merged []*message.BlobRef) {
	n.t.Helper()
	var first *message.BlobRef
	for _, m := range n.miners[stage] {
		r := n.do(m, &message.Task{
			Id: n.id(message.TaskKind_INSTALL, 0, stage), Plan: plan, Inputs: merged, RateBits: math.Float32bits(testRate),
		})
		if first == nil {
			first = r.Outputs[0]
		}
		if !first.Same(r.Outputs[0]) {
			n.t.Fatalf("stage %d: replicas differ after the install", stage)
		}
	}
}

func (n *network) blob(hash []byte) ([]byte, error) {
	b, ok := n.blobs[string(hash)]
	if !ok {
		return nil, fmt.Errorf("no blob %x", hash)
	}
	return b, nil
}
