package sim

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
)

// job is an order that waits for its miner.
type job struct {
	order          *message.Order
	inputs         [][]byte
	asked, fetched bool
}

// ahead is how many tasks of an urgency have their inputs fetched while others are computed.
const ahead = 2

// enqueue queues an order. A cancellation takes the tasks that it names out at once.
func (m *Machine) enqueue(o *message.Order) {
	if c := o.GetCancel(); c != nil {
		for i := range m.queues {
			m.queues[i] = slices.DeleteFunc(m.queues[i], func(j *job) bool {
				t := j.order.GetTask()
				return t != nil && (c.GetTask() == nil || t.GetId().Key() == c.GetTask().Key() && t.GetAttempt() == c.GetAttempt())
			})
		}
	}
	c := o.Urgency()
	m.queues[c] = append(m.queues[c], &job{order: o, fetched: c == message.Control})
	m.fetch()
	m.work()
}

// fetch begins to fetch what is needed next.
func (m *Machine) fetch() {
	for _, queue := range m.queues {
		for _, j := range queue[:min(ahead, len(queue))] {
			if j.asked || j.fetched {
				continue
			}
			j.asked = true
			at := m.sim.now
			for _, ref := range j.order.GetTask().GetInputs() {
				if ref.GetSize() > 0 {
					at = m.blobs.Down.Deliver(m.sim.now+m.delay(), int(ref.GetSize()))
				}
			}
			m.arrive(at, func() {
				j.inputs, j.fetched = m.read(j.order.GetTask()), true
				m.work()
			})
		}
	}
}

// read gets a task's inputs from the store. One that is missing stays nil; so does an empty reference.
func (m *Machine) read(t *message.Task) [][]byte {
	inputs := make([][]byte, len(t.GetInputs()))
	for i, ref := range t.GetInputs() {
		if ref.GetSize() > 0 && m.sim.has(ref) {
			b, err := m.sim.blobs.Get(context.Background(), store.Hash(ref.GetHash()), ref.GetSize())
			if err == nil {
				inputs[i] = b
			}
		}
	}
	return inputs
}

// pop takes the most urgent job whose inputs are there. A merge goes in order.
func (m *Machine) pop() *job {
	for c, queue := range m.queues {
		for i, j := range queue[:min(ahead, len(queue))] {
			if j.fetched {
				m.queues[c] = slices.Delete(queue, i, i+1)
				m.fetch()
				return j
			}
			if message.Urgency(c) == message.Merging {
				break
			}
		}
	}
	return nil
}

// work carries out orders until the machine is busy or nothing is ready.
func (m *Machine) work() {
	for m.up && !m.busy && m.sim.err == nil {
		j := m.pop()
		if j == nil {
			return
		}
		m.perform(j)
	}
}

// perform carries out one order. Control orders take no time.
func (m *Machine) perform(j *job) {
	switch kind := j.order.GetKind().(type) {
	case *message.Order_Ack:
		results, err := m.worker.Acknowledge(kind.Ack)
		if err != nil {
			m.sim.ignored(m, err)
		}
		for _, r := range results {
			m.store(r, nil)
		}
	case *message.Order_Refusal:
		m.worker.Drop(kind.Refusal.GetTask(), kind.Refusal.GetAttempt())
	case *message.Order_Cancel:
		m.worker.Drop(kind.Cancel.GetTask(), kind.Cancel.GetAttempt())
	case *message.Order_Task:
		m.do(kind.Task, j.inputs)
	}
}

// do computes a task: what comes out is stored and sent when its time has passed.
func (m *Machine) do(t *message.Task, inputs [][]byte) {
	kind := t.GetId().GetKind()
	began := begun{kind: kind}
	if m.role == message.Role_MINER {
		began.machine = m.number
	}
	m.sim.begun = append(m.sim.begun, began)
	result, outputs, err := m.worker.Do(t, inputs)
	if err != nil {
		m.sim.ignored(m, err)
		return
	}
	if result == nil {
		return
	}
	m.busy = true
	life := m.life
	m.sim.after(m.time(t), func() {
		if m.life != life {
			return
		}
		m.busy = false
		m.finish(kind, result)
		m.store(result, outputs)
		m.work()
	})
}

// finish notes what a machine keeps of a task that it did.
func (m *Machine) finish(kind message.TaskKind, result *message.Result) {
	r, err := result.Open()
	if err != nil || r.GetFault() != message.Fault_FAULT_NONE || len(r.GetOutputs()) != 1 {
		return
	}
	switch kind {
	case message.TaskKind_INSTALL:
		m.saves = append(m.saves, m.worker.Save())
		m.holds = r.GetOutputs()[0].GetHash()
	case message.TaskKind_LOAD:
		m.holds = r.GetOutputs()[0].GetHash()
	}
}

// efforts are compute times, relative to a forward through the stage.
var efforts = map[message.TaskKind]float64{
	message.TaskKind_LOAD: 1, message.TaskKind_FORWARD: 1, message.TaskKind_LOSS: 3, message.TaskKind_BACKWARD: 2,
	message.TaskKind_EVALUATE: 1, message.TaskKind_SHARE: 1, message.TaskKind_CLOSE: 0.5, message.TaskKind_REDUCE: 0.2,
	message.TaskKind_INSTALL: 1, message.TaskKind_UPLOAD: 0.5, message.TaskKind_OUTER: 1, message.TaskKind_STATE: 0.2,
}

// time is how long a task takes on this machine: a tenth more or less, by the dice.
func (m *Machine) time(t *message.Task) time.Duration {
	s := m.sim
	effort := efforts[t.GetId().GetKind()] * s.costs[t.GetId().GetStage()]
	if t.GetRerun() {
		effort *= 1.5
	}
	for _, r := range t.GetLog() {
		effort += efforts[r.GetTask().GetKind()] * s.costs[r.GetTask().GetStage()]
	}
	jitter := 0.9 + float64(0.2*s.dice.Float64())
	return time.Duration(float64(s.config.Unit) * effort * m.factor * jitter)
}

// store uploads outputs and hands the result to the outbox, in the order of the log.
func (m *Machine) store(result *message.Result, outputs []message.Blob) {
	for _, b := range outputs {
		m.arrive(m.blobs.Up.Deliver(m.sim.now, len(b.Bytes())), func() {
			if _, err := m.sim.blobs.Put(context.Background(), b); err != nil {
				m.sim.fail("%s: %v", m.name(), err)
			}
			m.uploaded += uint64(len(b.Bytes()))
		})
	}
	m.arrive(m.blobs.Up.Deliver(m.sim.now, 0), func() {
		m.outbox.add(result)
		m.flush()
	})
}

// outbox keeps a session's results in the order of its log; next is the first that this connection has not sent.
type outbox struct {
	entries []entry
	next    int
}

type entry struct {
	hash    []byte // of the receipt
	result  *message.Result
	task    message.Key
	attempt uint32
	refs    []*message.BlobRef // stored outputs
}

const maxOutbox = 1024

func (b *outbox) add(result *message.Result) {
	e := entry{hash: message.HashBytes(result.GetReceipt()), result: result}
	if r, err := result.Open(); err == nil {
		e.task, e.attempt = r.GetTask().Key(), r.GetAttempt()
		if r.GetTask().GetKind().Stored() && r.GetFault() == message.Fault_FAULT_NONE {
			e.refs = r.GetOutputs()
		}
	}
	b.entries = append(b.entries, e)
	if spare := len(b.entries) - maxOutbox; spare > 0 && spare <= b.next {
		b.entries, b.next = slices.Clone(b.entries[spare:]), b.next-spare
	}
}

// pop returns the next result to send, or nil.
func (b *outbox) pop() *message.Result {
	if b.next == len(b.entries) {
		return nil
	}
	b.next++
	return b.entries[b.next-1].result
}

// rewind makes the entry after the receipt of that hash the next to send. It returns false if the log does not go on
// there, or if a blob that must be claimed again is gone.
func (b *outbox) rewind(had []byte, has func(*message.BlobRef) bool) bool {
	at := -1
	if len(had) == 0 {
		at = 0
	}
	for i := range b.entries {
		if bytes.Equal(b.entries[i].hash, had) {
			at = i + 1
		}
	}
	if at < 0 {
		return false
	}
	b.next = at
	for _, e := range b.entries[at:] {
		for _, ref := range e.refs {
			if !has(ref) {
				return false
			}
		}
	}
	return true
}

// did reports whether the result of an attempt is in the outbox.
func (b *outbox) did(t *message.Task) bool {
	return slices.ContainsFunc(b.entries, func(e entry) bool {
		return e.attempt == t.GetAttempt() && e.task == t.GetId().Key()
	})
}
