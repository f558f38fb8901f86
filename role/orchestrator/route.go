package orchestrator

import (
	"math"
	"slices"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// route hands out work: first what goes back, then what goes forward, oldest first; then new micro-batches enter.
func (o *Orchestrator) route() {
	if o.Finished || (o.Phase != Training && o.Phase != Waiting) {
		return
	}
	for _, back := range []bool{true, false} {
		for _, f := range o.Flights {
			if f.Lease == nil && f.Back == back {
				o.dispatch(f)
			}
		}
	}
	if o.Phase == Training && !o.Draining {
		o.admit()
	}
}

// admit lets micro-batches enter while every stage could hold one more. Held-out ones come first: they need the
// weights that the epoch started with, and the merge waits for them.
func (o *Orchestrator) admit() {
	for len(o.Flights) < o.capacity() {
		f := o.nextFlight()
		if f == nil {
			return
		}
		o.Flights = append(o.Flights, f)
		o.dispatch(f)
	}
}

// capacity is the number of micro-batches that fit into the thinnest stage.
func (o *Orchestrator) capacity() int {
	least := math.MaxInt
	for _, s := range o.Stages {
		n := 0
		for _, m := range o.active(s.Index) {
			if m.Connected && !o.retires(m) {
				n += o.slots(m)
			}
		}
		least = min(least, n)
	}
	return least
}

func (o *Orchestrator) nextFlight() *flight {
	f := &flight{}
	switch {
	case o.EvaluateNext < o.EvaluateCount:
		f.HeldOut, f.Batch = true, uint64(o.EvaluateNext)
		o.EvaluateNext++
	case o.Last:
		return nil
	case len(o.Again) > 0:
		f.Batch = o.Again[0]
		o.Again = o.Again[1:]
	default:
		f.Batch = o.Next
		o.Next++
	}
	n := len(o.Stages)
	f.Path, f.Makers = slices.Repeat([]int{-1}, n), slices.Repeat([]int{-1}, n)
	f.Wires, f.Gradients, f.Sent = make([]ref, n-1), make([]ref, n), make([]time.Duration, n)
	return f
}

// dispatch orders the next piece of a micro-batch's work if somebody can do it now.
func (o *Orchestrator) dispatch(f *flight) {
	m, rerun := o.holder(f), false
	if m != nil && !m.Connected {
		return // it is expected back after a restart
	}
	if m == nil {
		m = o.draw(f)
		if m == nil {
			return
		}
		m.Held++
		f.Path[f.Hop] = m.Number
		rerun = f.Back
	}
	f.Attempt++
	f.Lease = &lease{Miner: m.Number, Until: o.Now + time.Duration(o.rules.GetLease()), Sent: o.Now, Rerun: rerun}
	if !f.Back || rerun {
		f.Sent[f.Hop] = o.Now
	}
	o.sendTask(m, o.flightTask(f))
}

// holder returns the miner that keeps the forward which the backward belongs to.
func (o *Orchestrator) holder(f *flight) *miner {
	if !f.Back || f.Path[f.Hop] < 0 {
		return nil
	}
	return o.Miners[f.Path[f.Hop]]
}

// draw picks one of the stage's miners with a free slot, with a probability proportional to its speed and
// independently of every other stage. A miner that was late stays a candidate, at a lower weight, so that two remain
// where two live; a hung one is tried now and then; one that leaves only where nobody else could bring home what is on its way.
func (o *Orchestrator) draw(f *flight) *miner {
	var list []*miner
	typical, total := typicalSpeed(o.active(f.Hop)), 0.0
	candidates := o.candidates(f)
	others := slices.ContainsFunc(candidates, func(m *miner) bool { return !m.hung() })
	staying := slices.ContainsFunc(candidates, func(m *miner) bool { return m.Connected && !o.retires(m) })
	for _, m := range candidates {
		if !m.Connected || staying && o.retires(m) || m.Held >= o.slots(m) || others && m.hung() && o.Now < m.TryAfter {
			continue
		}
		list = append(list, m)
		total += m.weight(typical)
	}
	if len(list) == 0 {
		return nil
	}
	x := float64(o.dice.Float64() * total)
	for _, m := range list {
		if x -= m.weight(typical); x < 0 {
			return m
		}
	}
	return list[len(list)-1]
}

// candidates are the miners who may do a flight's present piece of work. One that just failed it is passed over while
// others live. A second opinion comes from somebody else or not at all.
func (o *Orchestrator) candidates(f *flight) []*miner {
	live := o.active(f.Hop)
	avoid := len(f.Claims) > 0 || len(live) > 1
	return slices.DeleteFunc(live, func(m *miner) bool {
		return avoid && f.Avoid == m.Number+1 || slices.ContainsFunc(f.Claims, func(c claim) bool { return c.Miner == m.Number })
	})
}

// typicalSpeed is the mean speed of the measured miners, 1 if none is.
func typicalSpeed(list []*miner) float64 {
	sum, n := 0.0, 0.0
	for _, m := range list {
		if m.Service > 0 {
			sum, n = sum+m.speed(), n+1
		}
	}
	if n == 0 {
		return 1
	}
	return sum / n
}

// speed is in micro-batches per second, 0 for an unmeasured miner.
func (m *miner) speed() float64 {
	if m.Service <= 0 {
		return 0
	}
	return 1 / m.Service
}

// weight is a miner's weight in the draw; an unmeasured one counts as a typical one.
func (m *miner) weight(typical float64) float64 {
	if m.Service <= 0 {
		return m.Factor * typical
	}
	return m.Factor * m.speed()
}

// slots is how many micro-batches a miner may hold: enough to compute while others travel, and one more.
func (o *Orchestrator) slots(m *miner) int {
	most := int(o.rules.GetMaxSlots())
	if m.Service <= 0 || m.Hold <= 0 {
		return min(2, most)
	}
	return max(1, min(most, int(math.Ceil(m.Hold/m.Service))+1))
}

// flightTask is the task that a flight's lease stands for.
func (o *Orchestrator) flightTask(f *flight) *message.Task {
	last := f.Hop == len(o.Stages)-1
	t := &message.Task{
		Id:      &message.TaskID{Kind: f.kind(last), Epoch: o.Epoch, Batch: f.Batch, Stage: uint32(f.Hop)},
		Attempt: f.Attempt, Rerun: f.Lease.Rerun,
	}
	if stages := o.Acked[f.Batch]; !f.HeldOut && stages != nil {
		t.Passing = stages[f.Hop]
	}
	if f.Back && !last {
		t.Inputs = append(t.Inputs, f.Gradients[f.Hop+1].blob())
	}
	if f.Hop > 0 && (!f.Back || f.Lease.Rerun) {
		t.Inputs = append(t.Inputs, f.Wires[f.Hop-1].blob())
	}
	return t
}

func (f *flight) kind(last bool) message.TaskKind {
	switch {
	case f.HeldOut:
		return message.TaskKind_EVALUATE
	case f.Back && !last:
		return message.TaskKind_BACKWARD
	case last:
		return message.TaskKind_LOSS
	}
	return message.TaskKind_FORWARD
}

// release frees the slot that a flight holds in a stage.
func (o *Orchestrator) release(f *flight, stage int) {
	if n := f.Path[stage]; n >= 0 {
		o.Miners[n].Held--
		f.Path[stage] = -1
	}
}

// land takes a flight off the list.
func (o *Orchestrator) land(f *flight) {
	for s := range f.Path {
		o.release(f, s)
	}
	o.Flights = slices.DeleteFunc(o.Flights, func(g *flight) bool { return g == f })
}
