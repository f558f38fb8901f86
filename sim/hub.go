package sim

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/blake3"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// hub is the orchestrator's process: the core, its journal and its connections.
type hub struct {
	sim     *Sim
	core    *orchestrator.Orchestrator
	journal *journal.Memory
	chain   [32]byte
	seq     uint64
	life    int // counts processes
	up      bool
	down    time.Duration // for which run time stood still, so far
	since   time.Duration // when it went down
	last    time.Duration // of the last event
	epoch   uint64        // of the last snapshot
	conns   map[string]*conn
}

// conn is a connection. Its end is known to each side when the news arrive there.
type conn struct {
	machine *Machine
	session []byte
	open    bool // for the hub
	greeted bool // the machine had its welcome: it may send results
}

// tickEvery is the longest time without an event.
const tickEvery = 100 * time.Millisecond

func newHub(s *Sim) (*hub, error) {
	h := &hub{sim: s, journal: journal.NewMemory(), up: true, conns: map[string]*conn{}}
	secret := s.derive("secret", 0)
	genesis := append(secret[:], message.Encode(s.config.Manifest)...)
	if err := h.journal.WriteGenesis(genesis); err != nil {
		return nil, err
	}
	h.chain = blake3.Sum256(genesis)
	var err error
	h.core, err = orchestrator.New(s.config.Manifest, secret)
	return h, err
}

// ticker returns what happens every tick of this process.
func (h *hub) ticker() func() {
	life := h.life
	var tick func()
	tick = func() {
		if !h.up || h.life != life || h.core.Finished {
			return
		}
		if h.sim.now-h.last >= tickEvery/2 {
			h.step(&message.Event{Kind: &message.Event_Tick{Tick: &message.Tick{}}})
		}
		h.sim.after(tickEvery, tick)
	}
	return tick
}

// runTime is the orchestrator's time: it stands still while that is down.
func (h *hub) runTime() time.Duration { return h.sim.now - h.down }

// step takes in an event: into the core, the journal, and then out with the orders.
func (h *hub) step(in *message.Event) {
	event, now := message.Encode(in), h.runTime()
	out, err := h.core.Step(now, in)
	if err != nil {
		h.sim.fail("event %d is impossible: %v", h.seq+1, err)
		return
	}
	h.last = h.sim.now
	h.chain = journal.Link(h.chain, now, event, encodeAll(out))
	h.seq++
	if err := h.journal.Append([]journal.Record{{Seq: h.seq, Now: now, Event: event, Chain: h.chain}}); err != nil {
		h.sim.fail("%v", err)
		return
	}
	h.sim.observe(in, out)
	for _, o := range out {
		if c := h.conns[string(o.GetTo())]; o.GetOrder() != nil && c != nil {
			c.machine.send(c, o.GetOrder())
		}
		h.release(in, o.GetRelease())
	}
	if h.core.Epoch != h.epoch {
		h.epoch = h.core.Epoch
		h.keepSnapshot()
	}
}

func encodeAll(out []*message.Outbound) [][]byte {
	list := make([][]byte, len(out))
	for i, o := range out {
		list[i] = message.Encode(o)
	}
	return list
}

// release deletes blobs that nothing needs any longer, except those that the same event claims.
func (h *hub) release(in *message.Event, refs []*message.BlobRef) {
	if len(refs) == 0 {
		return
	}
	claimed := map[string]bool{}
	if r, err := in.GetResult().Open(); err == nil {
		for _, ref := range r.GetOutputs() {
			claimed[string(ref.GetHash())] = true
		}
	}
	for _, ref := range refs {
		if !claimed[string(ref.GetHash())] {
			_ = h.sim.blobs.Delete(store.Hash(ref.GetHash())) // memory deletes
		}
	}
}

func (h *hub) keepSnapshot() {
	state, err := h.core.Snapshot()
	if err == nil {
		err = h.journal.WriteSnapshot(journal.Snapshot{Seq: h.seq, State: state, StateHash: blake3.Sum256(state)})
	}
	if err != nil {
		h.sim.fail("%v", err)
	}
}

// receive takes in what a machine sent over a connection.
func (h *hub) receive(c *conn, e *message.Envelope) {
	key := string(c.machine.public)
	if !h.up || !c.open {
		return
	}
	event := &message.Event{Miner: c.machine.public}
	switch kind := e.GetKind().(type) {
	case *message.Envelope_Register:
		if old := h.conns[key]; old != nil {
			h.drop(old) // it dialled anew
		}
		c.session = kind.Register.GetSession()
		h.conns[key] = c
		event.Kind = &message.Event_Register{Register: kind.Register}
	case *message.Envelope_Heartbeat:
		event.Kind = &message.Event_Heartbeat{Heartbeat: kind.Heartbeat}
	case *message.Envelope_Result:
		if err := h.verify(c.machine.public, kind.Result); err != nil {
			h.sim.note("%s: connection closed: %v", c.machine.name(), err)
			h.drop(c)
			return
		}
		event.Kind = &message.Event_Result{Result: kind.Result}
	}
	h.step(event)
}

// verify checks a result's signature and that its outputs are stored.
func (h *hub) verify(key []byte, result *message.Result) error {
	if h.sim.config.Text != nil && !result.Verify(key) { // stand-ins are spared the cost
		return fmt.Errorf("a result whose signature does not hold")
	}
	r, err := result.Open()
	if err != nil {
		return err
	}
	if r.GetFault() != message.Fault_FAULT_NONE || !r.GetTask().GetKind().Stored() {
		return nil
	}
	for _, ref := range r.GetOutputs() {
		if !h.sim.has(ref) {
			return fmt.Errorf("%s: an output is not stored", r.GetTask().Key())
		}
	}
	return nil
}

// has reports whether a blob is stored.
func (s *Sim) has(ref *message.BlobRef) bool {
	if len(ref.GetHash()) != len(store.Hash{}) {
		return false
	}
	ok, err := s.blobs.Has(context.Background(), store.Hash(ref.GetHash()))
	return ok && err == nil
}

// drop ends a connection from the hub's side. The core learns it at once, the machine when the news arrive.
func (h *hub) drop(c *conn) {
	if !c.open {
		return
	}
	c.open = false
	if key := string(c.machine.public); h.conns[key] == c {
		delete(h.conns, key)
		h.step(&message.Event{Miner: c.machine.public, Kind: &message.Event_Gone{Gone: &message.Gone{Session: c.session}}})
	}
	m := c.machine
	m.sim.after(m.delay(), func() { m.lost(c) })
}

// Restart kills the orchestrator's process and starts another one after a time, from the journal alone.
func (s *Sim) Restart(down time.Duration) {
	h := s.hub
	if !h.up {
		return
	}
	h.up, h.since = false, s.now
	h.life++
	for _, m := range slices.Concat(s.machines, s.validators) {
		if c := h.conns[string(m.public)]; c != nil {
			c.open = false
			s.after(m.delay(), func() { m.lost(c) })
		}
	}
	h.conns = map[string]*conn{}
	s.note("orchestrator killed in %s of epoch %d, down for %s", h.core.Phase, h.core.Epoch, down)
	s.after(down, h.resume)
}

func (h *hub) resume() {
	before, err := h.core.Snapshot()
	if err != nil {
		h.sim.fail("%v", err)
		return
	}
	core, err := h.replay(true)
	if err == nil {
		var after []byte
		if after, err = core.Snapshot(); err == nil && !bytes.Equal(before, after) {
			err = fmt.Errorf("the journal gives another state than the one that died")
		}
	}
	if err != nil {
		h.sim.fail("restart: %v", err)
		return
	}
	h.core, h.up = core, true
	h.down += h.sim.now - h.since
	h.sim.note("orchestrator back")
	h.step(&message.Event{Kind: &message.Event_Restarted{Restarted: &message.Restarted{}}})
	h.sim.after(tickEvery, h.ticker())
}

// replay returns the core as the journal has it, from the latest snapshot or from the beginning, and compares every
// link of the chain.
func (h *hub) replay(latest bool) (*orchestrator.Orchestrator, error) {
	core, err := orchestrator.New(h.sim.config.Manifest, h.sim.derive("secret", 0))
	if err != nil {
		return nil, err
	}
	genesis, err := h.journal.Genesis()
	if err != nil {
		return nil, err
	}
	chain, start := blake3.Sum256(genesis), uint64(0)
	if snapshot, ok, err := h.journal.LatestSnapshot(); err != nil {
		return nil, err
	} else if ok && latest {
		if err := core.Restore(snapshot.State); err != nil {
			return nil, err
		}
		start = snapshot.Seq
	}
	err = h.journal.Read(start, func(r journal.Record) error {
		if r.Seq == start {
			chain = r.Chain
			return nil
		}
		var event message.Event
		if err := message.Decode(r.Event, &event); err != nil {
			return err
		}
		out, err := core.Step(r.Now, &event)
		if err != nil {
			return err
		}
		if chain = journal.Link(chain, r.Now, r.Event, encodeAll(out)); chain != r.Chain {
			return fmt.Errorf("event %d leads to another link of the chain", r.Seq)
		}
		return nil
	})
	return core, err
}
