// Package sim runs a whole network in one thread and in virtual time: the very orchestrator and miners of a real run,
// driven by a queue of moments instead of clocks, connections and goroutines. Links and compute times are modelled, and
// faults happen when a scenario, or a seed, says so. The same commands give the same run, bit for bit.
//
//	s, err := sim.New(sim.Config{Manifest: m, Seed: 1})
//	s.Join(6)
//	s.Run(s.Finished, time.Hour)
//	err = s.Verify() // a law of the design that was broken, with seed and time
//
// After every event the laws are checked (laws.go). Scenario runs the commands of a transcript (scenario.go).
package sim

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zeebo/blake3"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// Config describes a simulated network.
type Config struct {
	Manifest *message.Manifest
	Seed     uint64         // of everything that is drawn: the core's secret, keys, jitter
	Link     transport.Link // of every miner that joins
	Unit     time.Duration  // modelled compute time of a forward through the mean stage
	// Text makes miners train for real on it. Without it they are stand-ins, which follow the protocol with tensors of
	// a few numbers: for simulations of what the orchestrator does.
	Text *data.Dataset
}

// Sim is one simulation.
type Sim struct {
	config  Config
	now     time.Duration
	moments moments
	count   uint64 // of moments ever queued
	dice    *rand.Rand
	blobs   *store.Memory
	lost    map[store.Hash]bool // deleted by a fault, and perhaps stored again since
	engine  *kernel.Engine
	costs   []float64 // of a stage, relative to the mean stage

	hub        *hub
	machines   []*Machine
	validators []*Machine
	laws       laws
	begun      []begun // tasks that machines began during this moment
	seen       seen
	lines      []string
	err        error
}

// begun is a task that a machine begins.
type begun struct {
	kind    message.TaskKind
	machine int // from 1
}

// blobCapacity bounds the memory of a simulation's blobs, in bytes.
const blobCapacity = 4 << 30

// New returns a network whose orchestrator runs and that no miner has joined.
func New(c Config) (*Sim, error) {
	if c.Unit <= 0 {
		c.Unit = 10 * time.Millisecond
	}
	numerics, err := kernel.ParseNumerics(c.Manifest.GetNumerics())
	if err != nil {
		return nil, err
	}
	s := &Sim{config: c, blobs: store.NewMemory(blobCapacity), lost: map[store.Hash]bool{}, engine: kernel.NewFor(numerics, 1)}
	s.dice = rand.New(rand.NewChaCha8(s.derive("dice", 0)))
	shape, total := manifest.Shape(c.Manifest), 0.0
	for stage := range shape.Stages() {
		s.costs = append(s.costs, float64(shape.Cost(stage)))
		total += s.costs[stage]
	}
	for stage := range s.costs {
		s.costs[stage] *= float64(len(s.costs)) / total
	}
	s.laws = newLaws(s)
	if s.hub, err = newHub(s); err != nil {
		return nil, err
	}
	s.after(tickEvery, s.hub.ticker())
	return s, nil
}

// Close frees the engine.
func (s *Sim) Close() { s.engine.Close() }

// Now returns the virtual time since the start.
func (s *Sim) Now() time.Duration { return s.now }

// Err returns the first broken law.
func (s *Sim) Err() error { return s.err }

// Join lets n new miners join and returns the first of them.
func (s *Sim) Join(n int) *Machine {
	first := len(s.machines)
	for range n {
		m := newMachine(s, message.Role_MINER, len(s.machines)+1)
		s.machines = append(s.machines, m)
		m.start()
	}
	return s.machines[first]
}

// JoinValidators lets n new validators join.
func (s *Sim) JoinValidators(n int) {
	for range n {
		m := newMachine(s, message.Role_VALIDATOR, len(s.validators)+1)
		s.validators = append(s.validators, m)
		m.start()
	}
}

// Validator returns the machine of that validator, from 1 in order of joining, or nil.
func (s *Sim) Validator(number int) *Machine {
	if number < 1 || number > len(s.validators) {
		return nil
	}
	return s.validators[number-1]
}

// Machine returns the machine of that number, from 1 in order of joining, or nil.
func (s *Sim) Machine(number int) *Machine {
	if number < 1 || number > len(s.machines) {
		return nil
	}
	return s.machines[number-1]
}

// Run lets time pass until the condition holds or the limit has passed, and reports whether it holds. A finished run
// stands still.
func (s *Sim) Run(until func() bool, limit time.Duration) bool {
	end := s.now + limit
	for s.err == nil {
		if until() {
			return true
		}
		if len(s.moments) == 0 || s.moments[0].at > end {
			s.now = end
			return false
		}
		m := heap.Pop(&s.moments).(moment)
		s.now, s.begun = m.at, s.begun[:0]
		m.do()
	}
	return false
}

// Verify replays the whole journal and compares the chain and the state with those of the run.
func (s *Sim) Verify() error {
	if s.err != nil {
		return s.err
	}
	want, err := s.hub.core.Snapshot()
	if err != nil {
		return err
	}
	core, err := s.hub.replay(false)
	if err != nil {
		return fmt.Errorf("seed %d: %w", s.config.Seed, err)
	}
	got, err := core.Snapshot()
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("seed %d: the journal replayed gives another state", s.config.Seed)
	}
	return err
}

// fail notes a broken law. Only the first one counts: what follows may be its consequence.
func (s *Sim) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("seed %d, at %s: %s", s.config.Seed, seconds(s.now), fmt.Sprintf(format, args...))
	}
}

// derive returns 32 bytes that follow from the seed and a purpose.
func (s *Sim) derive(purpose string, i int) (b [32]byte) {
	var material [16]byte
	binary.LittleEndian.PutUint64(material[:], s.config.Seed)
	binary.LittleEndian.PutUint64(material[8:], uint64(i))
	blake3.DeriveKey("iota-train 2026-11 sim "+purpose, material[:], b[:])
	return b
}

// moment is something that happens at a time.
type moment struct {
	at    time.Duration
	count uint64
	do    func()
}

// moments is a heap: by time, then in the order in which they were queued.
type moments []moment

func (h moments) Len() int { return len(h) }
func (h moments) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].count < h[j].count
}
func (h moments) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is for package heap.
func (h *moments) Push(x any) { *h = append(*h, x.(moment)) }

// Pop is for package heap.
func (h *moments) Pop() any {
	old := *h
	m := old[len(old)-1]
	old[len(old)-1] = moment{}
	*h = old[:len(old)-1]
	return m
}

// at queues a moment.
func (s *Sim) at(t time.Duration, do func()) {
	s.count++
	heap.Push(&s.moments, moment{max(t, s.now), s.count, do})
}

func (s *Sim) after(d time.Duration, do func()) { s.at(s.now+d, do) }

// LoseCheckpoint deletes the blob of a stage's checkpoint, as a failing disk might.
func (s *Sim) LoseCheckpoint(stage int) error {
	stages := s.hub.core.Stages
	if stage < 0 || stage >= len(stages) || stages[stage].Checkpoint == nil {
		return fmt.Errorf("stage %d has no stored checkpoint", stage)
	}
	h := store.Hash(stages[stage].Checkpoint.Hash)
	s.lost[h] = true
	return s.blobs.Delete(h)
}
