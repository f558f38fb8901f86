package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/zeebo/blake3"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// machine is the core with the chain over everything that it did.
type machine struct {
	manifest *message.Manifest
	core     *orchestrator.Orchestrator
	chain    [32]byte
	seq      uint64
	now      time.Duration
	release  map[store.Hash]bool // blobs that nothing needs any longer, not yet deleted
	page     func([]byte)        // takes in what leaves the core for the ledger; nil: nobody
}

// Begin writes the genesis of a run: its manifest and the core's secret. Writing the same again is no error.
func Begin(j Journal, m *message.Manifest, secret [32]byte) error {
	if err := j.WriteGenesis(append(secret[:], message.Encode(m)...)); err != nil {
		return fmt.Errorf("begin run: %w", err)
	}
	return nil
}

// Genesis returns the manifest and the secret of a journal's run, and a nil manifest for a journal without one.
func Genesis(j Journal) (*message.Manifest, [32]byte, error) {
	var secret [32]byte
	b, err := j.Genesis()
	if err != nil || b == nil {
		return nil, secret, err
	}
	if len(b) < len(secret) {
		return nil, secret, fmt.Errorf("genesis of %d bytes: %w", len(b), journal.ErrDamaged)
	}
	var m message.Manifest
	copy(secret[:], b)
	if err := message.Decode(b[len(secret):], &m); err != nil {
		return nil, secret, fmt.Errorf("genesis: %w", err)
	}
	return &m, secret, nil
}

// newMachine returns the core at the genesis of a journal.
func newMachine(j Journal) (*machine, error) {
	m, secret, err := Genesis(j)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errors.New("the journal holds no run")
	}
	core, err := orchestrator.New(m, secret)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	genesis, err := j.Genesis()
	if err != nil {
		return nil, err
	}
	return &machine{manifest: m, core: core, chain: blake3.Sum256(genesis), release: map[store.Hash]bool{}}, nil
}

// step takes in one event and returns the record to journal and what is to be sent when it is durable.
func (m *machine) step(now time.Duration, event *message.Event) (journal.Record, []*message.Outbound, error) {
	now = max(now, m.now)
	out, err := m.core.Step(now, event)
	if err != nil {
		return journal.Record{}, nil, err
	}
	r := journal.Record{Seq: m.seq + 1, Now: now, Event: message.Encode(event)}
	r.Chain = link(m.chain, now, r.Event, out)
	m.seq, m.now, m.chain = r.Seq, now, r.Chain
	m.track(event, out)
	return r, out, nil
}

// track hands on the pages of the ledger and follows which blobs may be deleted. One that a later event of the same
// commit claims again stays.
func (m *machine) track(event *message.Event, out []*message.Outbound) {
	for _, o := range out {
		for _, ref := range o.GetRelease() {
			if h, ok := hashOf(ref); ok {
				m.release[h] = true
			}
		}
		if page := o.GetLedger(); page != nil && m.page != nil {
			m.page(page)
		}
	}
	if len(m.release) == 0 {
		return
	}
	if receipt, err := event.GetResult().Open(); err == nil {
		for _, ref := range receipt.GetOutputs() {
			if h, ok := hashOf(ref); ok {
				delete(m.release, h)
			}
		}
	}
}

// link extends the chain by an event and what it set off.
func link(previous [32]byte, now time.Duration, event []byte, out []*message.Outbound) [32]byte {
	parts := make([][]byte, len(out))
	for i, o := range out {
		parts[i] = message.Encode(o)
	}
	return journal.Link(previous, now, event, parts)
}

// replay takes in a journalled event again and compares the chain.
func (m *machine) replay(r journal.Record) error {
	if r.Seq != m.seq+1 {
		return fmt.Errorf("event %d follows event %d: %w", r.Seq, m.seq, ErrDiverged)
	}
	var event message.Event
	if err := message.Decode(r.Event, &event); err != nil {
		return fmt.Errorf("event %d: %w", r.Seq, err)
	}
	again, _, err := m.step(r.Now, &event)
	if err != nil {
		return fmt.Errorf("event %d: %w: %w", r.Seq, err, ErrDiverged)
	}
	if again.Chain != r.Chain {
		return fmt.Errorf("event %d: the chain link is %x, replayed it is %x: %w", r.Seq, r.Chain[:4], again.Chain[:4], ErrDiverged)
	}
	return nil
}

// snapshot is the state after the last event.
func (m *machine) snapshot() (journal.Snapshot, error) {
	state, err := m.core.Snapshot()
	if err != nil {
		return journal.Snapshot{}, err
	}
	return journal.Snapshot{Seq: m.seq, State: state, StateHash: blake3.Sum256(state)}, nil
}

// resume returns the machine as the journal's last event left it: the latest snapshot and the events after it.
func resume(j Journal) (*machine, error) {
	m, err := newMachine(j)
	if err != nil {
		return nil, err
	}
	s, ok, err := j.LatestSnapshot()
	if err != nil {
		return nil, err
	}
	if ok && s.State != nil {
		if blake3.Sum256(s.State) != s.StateHash {
			return nil, fmt.Errorf("snapshot after event %d: its hash differs: %w", s.Seq, journal.ErrDamaged)
		}
		if err := m.core.Restore(s.State); err != nil {
			return nil, fmt.Errorf("snapshot after event %d: %w", s.Seq, err)
		}
		m.seq = s.Seq
	}
	err = j.Read(m.seq, func(r journal.Record) error {
		if r.Seq == m.seq { // the snapshot's own event: only its place in the chain
			m.chain, m.now = r.Chain, r.Now
			return nil
		}
		return m.replay(r)
	})
	return m, err
}

// hashOf is a reference's hash in the store's form.
func hashOf(ref *message.BlobRef) (h store.Hash, ok bool) {
	return h, len(ref.GetHash()) == len(h) && copy(h[:], ref.GetHash()) == len(h)
}
