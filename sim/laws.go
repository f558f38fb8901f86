package sim

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// laws watches a run from outside: it keeps books of its own from the orders that leave, and holds the core against them
// after every event.
type laws struct {
	sim    *Sim
	acked  map[work]ack
	open   map[uint64]int // stages that acknowledged a micro-batch which is not through all of them
	next   uint64         // micro-batches that ever entered
	counts []uint64       // acknowledgements per stage
	barred map[int]bool
	now    time.Duration
	checks uint64
	books  ledger.Reader
	pages  bytes.Buffer // of the ledger, as they left
}

// work is a micro-batch in a stage.
type work struct {
	batch uint64
	stage uint32
}

// ack is the one acknowledgement of a work.
type ack struct {
	miner   string
	epoch   uint64
	attempt uint32
	number  uint64
}

func newLaws(s *Sim) laws {
	return laws{sim: s, acked: map[work]ack{}, open: map[uint64]int{}, barred: map[int]bool{}, counts: make([]uint64, len(s.costs))}
}

// check holds an event's outcome and the state after it against the laws.
func (l *laws) check(out []*message.Outbound) {
	l.checks++
	for _, law := range []func([]*message.Outbound) error{
		l.timeGoesOn, l.onlyStoredInputs, l.acknowledgedOnce, l.nothingIsLost, l.booksBalance, l.deadlinesHold, l.boundsHold,
		l.replicasAreEqual, l.checkpointsAreStored, l.honestMinersStay, l.booksHold, l.verdictsAreTrue, l.auditsAreBounded,
		l.sharesAreSecret,
	} {
		if err := law(out); err != nil {
			l.sim.fail("%v", err)
			return
		}
	}
}

func (l *laws) core() *orchestrator.Orchestrator { return l.sim.hub.core }

// timeGoesOn: run time never runs backwards.
func (l *laws) timeGoesOn([]*message.Outbound) error {
	now := l.core().Now
	if now < l.now {
		return fmt.Errorf("run time went from %s back to %s", l.now, now)
	}
	l.now = now
	return nil
}

// onlyStoredInputs: an order names only blobs that are stored.
func (l *laws) onlyStoredInputs(out []*message.Outbound) error {
	for _, o := range out {
		t := o.GetOrder().GetTask()
		for _, ref := range t.GetInputs() {
			if ref.GetSize() > 0 && !l.sim.has(ref) && !l.sim.lost[store.Hash(ref.GetHash())] {
				return fmt.Errorf("%s is ordered with an input that is not stored", t.GetId().Key())
			}
		}
	}
	return nil
}

// acknowledgedOnce: each micro-batch is acknowledged once in each stage. The same acknowledgement may be repeated.
func (l *laws) acknowledgedOnce(out []*message.Outbound) error {
	for _, o := range out {
		a := o.GetOrder().GetAck()
		if a == nil {
			continue
		}
		id := a.GetTask()
		key, new := work{id.GetBatch(), id.GetStage()}, ack{string(o.GetTo()), id.GetEpoch(), a.GetAttempt(), a.GetNumber()}
		old, ok := l.acked[key]
		if ok && old != new {
			return fmt.Errorf("micro-batch %d was acknowledged twice in stage %d", key.batch, key.stage)
		}
		if !ok {
			l.acked[key] = new
			l.counts[key.stage]++
			l.open[key.batch]++
		}
	}
	return nil
}

// nothingIsLost: a micro-batch that entered and is not acknowledged by every stage is on its way or queued, once.
func (l *laws) nothingIsLost([]*message.Outbound) error {
	o, where := l.core(), map[uint64]int{}
	for ; l.next < o.Next; l.next++ {
		if _, ok := l.open[l.next]; !ok {
			l.open[l.next] = 0
		}
	}
	for _, f := range o.Flights {
		if !f.HeldOut {
			where[f.Batch]++
		}
	}
	for _, b := range o.Again {
		where[b]++
	}
	for b, n := range where {
		if _, ok := l.open[b]; n > 1 || !ok {
			return fmt.Errorf("micro-batch %d is under way %d times", b, n)
		}
	}
	for b, stages := range l.open {
		switch {
		case stages == len(l.counts) && where[b] == 0:
			delete(l.open, b)
		case where[b] == 0:
			return fmt.Errorf("micro-batch %d is lost: %d of %d stages acknowledged it", b, stages, len(l.counts))
		}
	}
	return nil
}

// booksBalance: in every stage merged, unmerged and not yet decided micro-batches make the acknowledged ones.
func (l *laws) booksBalance([]*message.Outbound) error {
	for i, s := range l.core().Stages {
		if s.Merged+s.Unmerged+s.EpochAcked != s.Acknowledged || s.Acknowledged != l.counts[i] {
			return fmt.Errorf("stage %d: %d merged, %d unmerged and %d undecided do not make %d acknowledged (%d acknowledgements left)",
				i, s.Merged, s.Unmerged, s.EpochAcked, s.Acknowledged, l.counts[i])
		}
	}
	return nil
}

// deadlinesHold: no phase outlives its deadline, a share under way its grace.
func (l *laws) deadlinesHold([]*message.Outbound) error {
	o, until := l.core(), l.core().Until
	if o.Finished {
		return nil
	}
	if o.Phase == orchestrator.Sharing {
		until += time.Duration(l.sim.config.Manifest.GetRules().GetShareGrace())
	}
	if o.Now >= until {
		return fmt.Errorf("%s of epoch %d was to end at %s", o.Phase, o.Epoch, seconds(until))
	}
	return nil
}

// boundsHold: slots, leases and queues stay within their bounds.
func (l *laws) boundsHold([]*message.Outbound) error {
	o, slots := l.core(), int(l.sim.config.Manifest.GetRules().GetMaxSlots())
	held := make([]int, len(o.Miners))
	for _, f := range o.Flights {
		for _, n := range f.Path {
			if n >= 0 {
				held[n]++
			}
		}
		if f.Lease != nil {
			if f.Path[f.Hop] != f.Lease.Miner {
				return fmt.Errorf("micro-batch %d is leased to miner %d, its slot is not", f.Batch, f.Lease.Miner+1)
			}
			if o.Now >= f.Lease.Until {
				return fmt.Errorf("the lease of micro-batch %d outlives its end at %s", f.Batch, seconds(f.Lease.Until))
			}
		}
	}
	for i, m := range o.Miners {
		if m.Held != held[i] || m.Held > slots || m.Held < 0 {
			return fmt.Errorf("miner %d holds %d slots, %d of them in use, %d allowed", i+1, m.Held, held[i], slots)
		}
		if m.Stepped > len(m.Acks) {
			return fmt.Errorf("miner %d stepped over %d gradients of %d", i+1, m.Stepped, len(m.Acks))
		}
	}
	if most := slots * len(o.Miners); len(o.Flights) > most {
		return fmt.Errorf("%d micro-batches are under way, %d slots exist", len(o.Flights), most)
	}
	if !slices.IsSorted(o.Again) {
		return fmt.Errorf("the micro-batches that travel again are out of order: %v", o.Again)
	}
	return nil
}

// replicasAreEqual: all who work on a stage started from the same weights, those of its checkpoint.
func (l *laws) replicasAreEqual([]*message.Outbound) error {
	o := l.core()
	if o.Phase == orchestrator.Installing || o.Finished {
		return nil
	}
	first := make([][]byte, len(o.Stages))
	for i, s := range o.Stages {
		if s.Checkpoint != nil {
			first[i] = s.Checkpoint.Hash
		}
	}
	for _, m := range o.Miners {
		machine := l.sim.find(m.Key)
		if !m.Connected || !m.Installed || !bytes.Equal(machine.session, m.Session) {
			continue
		}
		if first[m.Stage] == nil {
			first[m.Stage] = machine.holds
		}
		if !bytes.Equal(first[m.Stage], machine.holds) {
			return fmt.Errorf("miner %d holds other weights of stage %d than its checkpoint or its peers", m.Number+1, m.Stage)
		}
	}
	return nil
}

// checkpointsAreStored: every checkpoint that the core points to can be had.
func (l *laws) checkpointsAreStored([]*message.Outbound) error {
	for _, s := range l.core().Stages {
		if s.Checkpoint == nil {
			continue
		}
		h := store.Hash(s.Checkpoint.Hash)
		if ok, err := l.sim.blobs.Has(context.Background(), h); (!ok || err != nil) && !l.sim.lost[h] {
			return fmt.Errorf("the checkpoint of stage %d is not stored", s.Index)
		}
	}
	return nil
}

// honestMinersStay: no miner is withdrawn that never erred, whatever others say of it, while every lasting liar has an
// honest miner at work beside it and no accomplice.
func (l *laws) honestMinersStay([]*message.Outbound) error {
	o := l.core()
	for i, m := range o.Miners {
		if m.Barred == "" || l.barred[i] {
			continue
		}
		l.barred[i] = true
		if !l.sim.find(m.Key).erred && !l.outnumbered() {
			return fmt.Errorf("miner %d never erred and was withdrawn: %s", i+1, m.Barred)
		}
	}
	return nil
}

// outnumbered reports whether some stage has two lasting liars, or one and nobody else at work.
func (l *laws) outnumbered() bool {
	liars, honest := make([]int, len(l.counts)), make([]int, len(l.counts))
	for _, m := range l.core().Miners {
		switch {
		case m.Stage < 0 || m.Barred != "" || !m.Connected:
		case len(l.sim.find(m.Key).lies) > 0:
			liars[m.Stage]++
		case m.Installed:
			honest[m.Stage]++
		}
	}
	for s := range liars {
		if liars[s] > 1 || liars[s] == 1 && honest[s] == 0 {
			return true
		}
	}
	return false
}

// find returns the machine with a public key, or nil.
func (s *Sim) find(key []byte) *Machine {
	all := slices.Concat(s.machines, s.validators)
	i := slices.IndexFunc(all, func(m *Machine) bool { return bytes.Equal(m.public, key) })
	if i < 0 {
		return nil
	}
	return all[i]
}
