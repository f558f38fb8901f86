package orchestrator

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/iota-train/iota/protocol/message"
)

// result takes in a miner's receipt. Signature and stored blobs were checked at the edge. Everything that a miner can
// get wrong is answered with a refusal; an error means that the event should not have come this far.
func (o *Orchestrator) result(key []byte, res *message.Result) error {
	r, err := res.Open()
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	m := o.session(key, r.GetSession())
	if m == nil {
		return nil // of an older process; its work is already given away
	}
	switch {
	case !bytes.Equal(r.GetManifest(), o.hash) || r.GetNumerics() != o.manifest.GetNumerics():
		o.refuse(m, r, "this receipt belongs to another run: register again")
		return nil
	case !bytes.Equal(r.GetPrevious(), m.Log):
		o.repeat(m, r)
		return nil
	}
	m.Log = message.HashBytes(res.GetReceipt())
	o.keepReceipt(m, res.GetReceipt(), r)
	for _, out := range r.GetOutputs() {
		if len(out.GetHash()) != hashSize {
			o.refuse(m, r, "an output's hash is not of 32 bytes")
			return nil
		}
		if r.GetTask().GetKind().Stored() && r.GetFault() == message.Fault_FAULT_NONE { // then the edge saw the blob
			o.Blobs[hex.EncodeToString(out.GetHash())] = blob{out.GetSize(), o.Epoch}
		}
	}
	o.take(m, r, res.GetReceipt())
	return nil
}

const hashSize = 32

// largest bounds what a miner may state: above every norm of float32 numbers, and far below where sums would overflow.
const largest = 1e100

// summable reports whether a sum may take in x: a miner states it, and the state, sums included, must stay finite.
func summable(x float64) bool { return math.Abs(x) <= largest }

// finite returns x, or 0 for what no sum may take in.
func finite(x float64) float64 {
	if !summable(x) {
		return 0
	}
	return x
}

// take hands a receipt that extends its miner's log to the step of the epoch that it belongs to.
func (o *Orchestrator) take(m *miner, r *message.Receipt, raw []byte) {
	switch r.GetTask().GetKind() {
	case message.TaskKind_FORWARD, message.TaskKind_LOSS, message.TaskKind_BACKWARD, message.TaskKind_EVALUATE:
		o.flightResult(m, r)
	case message.TaskKind_STEP:
		o.stepped(m, r)
	case message.TaskKind_REDUCE:
		o.reduced(m, r, raw)
	case message.TaskKind_OUTER:
		o.arbitrated(m, r)
	case message.TaskKind_STATE:
		o.stateGiven(m, r)
	case message.TaskKind_REPLAY:
		o.replayed(judge{false, m.Number}, r)
	default:
		o.orderDone(m, r)
	}
}

// repeat answers a receipt that does not extend the log: one sent twice is answered from the state, anything else is
// out of order. A forward that was taken in needs no answer: a refusal would have the miner drop what it holds for it.
func (o *Orchestrator) repeat(m *miner, r *message.Receipt) {
	for i, a := range m.Acks {
		if id := r.GetTask(); id.GetEpoch() == o.Epoch && id.GetBatch() == a.Batch && id.GetKind() == a.Kind && r.GetAttempt() == a.Attempt {
			o.sendAck(m, a, uint64(i+1))
			return
		}
	}
	for _, f := range o.Flights {
		id := r.GetTask()
		if s := int(id.GetStage()); id.GetEpoch() == o.Epoch && f.Batch == id.GetBatch() && s < len(f.Path) && f.Path[s] == m.Number {
			return
		}
	}
	o.refuse(m, r, "had already, or out of order: send receipts in the order of the log")
}

// flightResult takes in a finished piece of a micro-batch's way, if it is the attempt that counts.
func (o *Orchestrator) flightResult(m *miner, r *message.Receipt) {
	m.Unanswered = 0
	f := o.leased(m, r)
	if f == nil {
		o.Counters.RefusedLate++
		o.refuse(m, r, fmt.Sprintf("%s, attempt %d: its lease ran out or it was cancelled; the run is in phase %s of epoch %d; nothing is held against you, go on with the next task",
			r.GetTask().Key(), r.GetAttempt(), o.Phase, o.Epoch))
		return
	}
	sent, rerun, task := f.Lease.Sent, f.Lease.Rerun, o.flightTask(f)
	f.Lease = nil
	if r.GetFault() != message.Fault_FAULT_NONE {
		o.flightFault(m, f, r, rerun)
		return
	}
	m.Factor = 1
	m.Busy += (o.Now - max(sent, m.LastDone)).Seconds()
	m.LastDone = o.Now
	last := f.Hop == len(o.Stages)-1
	if !o.wellFormed(r, last) || !asOrdered(task, r) {
		o.refuse(m, r, "inputs or outputs do not fit the task")
		o.retry(f, m)
		return
	}
	o.credit(m, f)
	o.refuteClaims(f)
	switch {
	case f.HeldOut:
		o.evaluated(m, f, r, last)
	case f.Back || last:
		o.backwardDone(m, f, r)
	default:
		o.forwardDone(m, f, r)
	}
}

// wellFormed checks a receipt's outputs against what the task must produce: one wire, or none at an end of the model.
func (o *Orchestrator) wellFormed(r *message.Receipt, last bool) bool {
	want := 1
	switch k := r.GetTask().GetKind(); {
	case k == message.TaskKind_EVALUATE && last, k == message.TaskKind_BACKWARD && r.GetTask().GetStage() == 0,
		k == message.TaskKind_LOSS && len(o.Stages) == 1:
		want = 0
	}
	return len(r.GetOutputs()) == want && summable(math.Float64frombits(r.GetLossBits()))
}

// leased returns the flight whose running attempt this receipt finishes, or nil.
func (o *Orchestrator) leased(m *miner, r *message.Receipt) *flight {
	for _, f := range o.Flights {
		if f.Lease != nil && f.Lease.Miner == m.Number && f.Attempt == r.GetAttempt() &&
			o.flightTask(f).GetId().Key() == r.GetTask().Key() {
			return f
		}
	}
	return nil
}

func (o *Orchestrator) forwardDone(m *miner, f *flight, r *message.Receipt) {
	m.Forwards++
	f.Wires[f.Hop] = newRef(r.GetOutputs()[0])
	f.Makers[f.Hop] = m.Number
	o.crossed(f.Wires[f.Hop])
	f.Hop, f.Avoid = f.Hop+1, 0
}

// crossed counts the bytes of a tensor that goes from stage to stage.
func (o *Orchestrator) crossed(w ref) {
	o.Counters.ActivationBytes += w.Size
	o.Counters.DenseBytes += uint64(o.shape.Rows()) * uint64(o.shape.Width) * 4
}

// backwardDone acknowledges a gradient, once per micro-batch and stage, and sends the tensor on.
func (o *Orchestrator) backwardDone(m *miner, f *flight, r *message.Receipt) {
	stage := f.Hop
	if r.GetTask().GetKind() == message.TaskKind_LOSS {
		m.Forwards++
		o.lossKnown(m, f, math.Float64frombits(r.GetLossBits()))
	}
	m.Backwards++
	o.measure(m, f)
	o.acknowledge(m, f, r)
	o.release(f, stage)
	f.Back, f.Avoid = true, 0
	if len(r.GetOutputs()) == 1 {
		f.Gradients[stage] = newRef(r.GetOutputs()[0])
		o.crossed(f.Gradients[stage])
	}
	f.Makers[stage] = m.Number
	if stage > 0 {
		f.Hop--
		return
	}
	o.land(f)
	delete(o.Acked, f.Batch)
}

// acknowledge lets the gradient into its miner's sum. A stage that summed the micro-batch in an earlier attempt neither
// sums nor counts it again.
func (o *Orchestrator) acknowledge(m *miner, f *flight, r *message.Receipt) {
	stages := o.Acked[f.Batch]
	if stages == nil {
		stages = make([]bool, len(o.Stages))
		o.Acked[f.Batch] = stages
	}
	if stages[f.Hop] {
		return
	}
	stages[f.Hop] = true
	m.Acks = append(m.Acks, ack{f.Batch, r.GetAttempt(), r.GetTask().GetKind()})
	o.sendAck(m, m.Acks[len(m.Acks)-1], uint64(len(m.Acks)))
	o.Stages[f.Hop].EpochAcked++
	o.Stages[f.Hop].Acknowledged++
}

func (o *Orchestrator) lossKnown(m *miner, f *flight, loss float64) {
	if stages := o.Acked[f.Batch]; stages != nil && stages[f.Hop] {
		return
	}
	if o.Counters.Tokens == 0 {
		o.Counters.LossFirst = loss
	}
	o.Counters.Tokens += uint64(o.shape.Rows())
	o.LossSum += loss
	o.LossCount++
	o.sampled(m, f, loss)
}

// measure updates a miner's moving averages after a backward: seconds of work per micro-batch, and the time from
// forward to backward, whose recent minimum is the round trip without queues.
func (o *Orchestrator) measure(m *miner, f *flight) {
	if m.Service <= 0 {
		m.Service = m.Busy
	}
	m.Service = float64(0.8*m.Service) + float64(0.2*m.Busy)
	m.Busy = 0
	if hold := (o.Now - f.Sent[f.Hop]).Seconds(); m.Hold <= 0 || hold < m.Hold {
		m.Hold = hold
	} else {
		m.Hold = min(hold, float64(1.02*m.Hold))
	}
}

// stepped checks that an inner step summed exactly the acknowledged gradients, in their order.
func (o *Orchestrator) stepped(m *miner, r *message.Receipt) {
	if r.GetTask().GetEpoch() != o.Epoch {
		return
	}
	n := len(r.GetSummed())
	if n == 0 || m.Stepped+n > len(m.Acks) || !sums(m.Acks[m.Stepped:m.Stepped+n], r.GetSummed()) {
		o.alert("miner %d reports a step over gradients that were not acknowledged to it", m.Number+1)
		return
	}
	m.Stepped += n
	if r.GetFault() != message.Fault_FAULT_NONE {
		o.nonFinite(m)
		return
	}
	m.Steps++
	m.GradNorm = finite(r.GetGradientNorm())
}

func sums(acks []ack, summed []*message.Summed) bool {
	for i, a := range acks {
		if a.Batch != summed[i].GetBatch() || a.Attempt != summed[i].GetAttempt() {
			return false
		}
	}
	return true
}
