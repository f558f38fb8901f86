package orchestrator

import (
	"bytes"
	"slices"

	"github.com/iota-train/iota/protocol/message"
)

// claim is one miner's word that an input of its task is of no use: not finite, or not to be had.
//
// A word proves nothing, so nobody is charged on it alone. The same piece of work goes to another miner of the stage,
// for a second opinion:
//
//   - It claims the same of the same blob. Two who agree are believed: the claim is upheld.
//   - It can compute with the blob. The claim is refuted, and counts against who made it.
//   - Nobody is left in the stage who could give one. The claim stays unchecked (suspect says what becomes of it), and
//     the input is made anew.
//
// So one liar, whatever it claims, costs an honest miner nothing where its stage has a second miner at work, and is
// withdrawn after MaxFaults refuted claims. Two liars are believed: in one stage against a
// third, and in neighbouring ones when one makes a bad tensor and the other computes with it. A flight holds one claim per miner of a stage at most, and none outlives
// the flight.
type claim struct {
	Miner int
	Fault message.Fault
	Stage int    // that made the input
	Input []byte // its hash
}

// same reports whether two claims are one, made by whomever.
func (c claim) same(d claim) bool {
	return c.Fault == d.Fault && c.Stage == d.Stage && bytes.Equal(c.Input, d.Input)
}

// claimed takes in a miner's claim against an input of its task. A miner that did not hold the flight's forward holds
// nothing for it now; one that does keeps it while no other can be asked, because a better gradient may come.
func (o *Orchestrator) claimed(m *miner, f *flight, r *message.Receipt, rerun bool) {
	sources, i := o.sources(f, rerun), r.GetFaultyInput()
	if uint64(i) >= uint64(len(sources)) {
		o.refuted(m, falseClaim) // its task has no such input
		o.retry(f, m)
		return
	}
	c := claim{Miner: m.Number, Fault: r.GetFault(), Stage: sources[i], Input: f.madeBy(sources[i]).Hash}
	upheld := slices.ContainsFunc(f.Claims, c.same)
	f.Claims = append(f.Claims, c)
	if !f.Back || rerun {
		o.release(f, f.Hop)
	}
	switch {
	case upheld:
		o.upheld(f, c)
	case len(o.candidates(f)) == 0:
		o.unchecked(f)
	default:
		o.giveUp(f, f.Hop)
		o.Counters.Rerouted++
	}
}

// sources are the stages that made the inputs of a flight's present piece of work, in their order in the task.
func (o *Orchestrator) sources(f *flight, rerun bool) []int {
	var list []int
	if f.Back && f.Hop < len(o.Stages)-1 {
		list = append(list, f.Hop+1)
	}
	if f.Hop > 0 && (!f.Back || rerun) {
		list = append(list, f.Hop-1)
	}
	return list
}

// madeBy is the tensor that a neighbour of the present stage passed to it.
func (f *flight) madeBy(stage int) ref {
	if stage > f.Hop {
		return f.Gradients[stage]
	}
	return f.Wires[stage]
}

// upheld acts on a claim that two miners share. Who made a tensor that is not finite is at fault, and not who was fed
// it; that a stored blob is lost is nobody's fault.
func (o *Orchestrator) upheld(f *flight, c claim) {
	for _, d := range f.Claims {
		if d.same(c) {
			o.Miners[d.Miner].Refuted = 0
		}
	}
	if c.Fault == message.Fault_MISSING_INPUT {
		o.travelAgain(f)
		return
	}
	maker := o.Miners[f.Makers[c.Stage]]
	o.alert("miner %d sent a tensor that is not finite", maker.Number+1)
	o.nonFinite(maker)
	o.makeAgain(f, c.Stage)
}

// refuteClaims counts a flight's claims against those who made them: another miner computed with its inputs.
func (o *Orchestrator) refuteClaims(f *flight) {
	claims := f.Claims
	f.Claims = nil
	for _, c := range claims {
		o.refuted(o.Miners[c.Miner], falseClaim)
	}
}

const falseClaim = "claimed that an input is of no use, which is not so"

// refuted counts a false claim of a miner, or one against an input that its task has not. Whether it lies or its memory
// fails, one that keeps making them is withdrawn. Only time and an upheld claim lower the count: good work does not.
func (o *Orchestrator) refuted(m *miner, what string) {
	o.Counters.Refuted++
	o.alert("miner %d %s", m.Number+1, what)
	if m.Refuted++; m.Refuted >= MaxFaults && m.Barred == "" {
		o.bar(m, "too many claims against inputs that others could use: check the machine's memory and connection, then join with a new key")
	}
}

// closeClaims gives up on the second opinions that nobody is left to give.
func (o *Orchestrator) closeClaims() {
	for _, f := range o.Flights {
		if len(f.Claims) > 0 && f.Lease == nil && len(o.candidates(f)) == 0 {
			o.unchecked(f)
		}
	}
}

// unchecked has the input made anew that a claim is about and that nobody else can judge. The edge took the result in
// only when its blob was stored, so a blob that one miner cannot get is first a sign of that miner's trouble.
func (o *Orchestrator) unchecked(f *flight) {
	missing, last := false, f.Claims[len(f.Claims)-1]
	for _, c := range f.Claims {
		if c.Fault == message.Fault_MISSING_INPUT {
			missing = true
			o.charge(o.Miners[c.Miner], "it could not get its inputs, many times in a row: check its connection, then join with a new key")
			continue
		}
		o.suspect(o.Miners[c.Miner], o.Miners[f.Makers[c.Stage]])
	}
	if missing {
		o.travelAgain(f)
		return
	}
	o.makeAgain(f, last.Stage)
}

// suspect notes an unchecked claim in the rows of both sides, one of which is at fault. A row ends with a tensor that is
// computed with: the maker's when it is its own, the accuser's when it is another's. A long row is judged by whom it is
// with. One culprit collects claims with several miners, but the others each with that one only; so whoever's long row
// names several is withdrawn. A pair that only ever meets each other cannot be told apart: then the accuser is believed,
// but only once in a run, and the second time the accuser it is who goes. So one liar costs at most one honest miner, and
// only where it alone can judge.
func (o *Orchestrator) suspect(accuser, maker *miner) {
	o.alert("miner %d claims that a tensor of miner %d is not finite; nobody else can tell", accuser.Number+1, maker.Number+1)
	accuser.doubt(maker)
	maker.doubt(accuser)
	const why = "it has a part in too many tensors that are not finite, one after the other: check the machine's memory, then join with a new key"
	switch {
	case maker.Barred != "" || accuser.Barred != "":
	case maker.doubted() && maker.doubtedBySeveral():
		o.bar(maker, why)
	case accuser.doubted() && accuser.doubtedBySeveral():
		o.bar(accuser, why)
	case maker.doubted() && accuser.Believed:
		o.bar(accuser, why)
	case maker.doubted():
		accuser.Believed = true
		o.bar(maker, why)
	}
}

// doubt adds an unchecked claim between two miners to the row of one.
func (m *miner) doubt(other *miner) {
	m.Doubts = append(m.Doubts, other.Number)
	m.Doubts = m.Doubts[max(0, len(m.Doubts)-MaxFaults):]
}

func (m *miner) doubted() bool { return len(m.Doubts) == MaxFaults }

func (m *miner) doubtedBySeveral() bool {
	return slices.ContainsFunc(m.Doubts, func(n int) bool { return n != m.Doubts[0] })
}
