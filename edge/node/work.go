package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
)

// work computes: always the most urgent order that is ready when the gate lets the miner in.
func (m *Miner) work(ctx context.Context) error {
	for {
		ready, err := m.orders.ready()
		if err != nil {
			return err
		}
		if !ready {
			select {
			case <-m.orders.changed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := m.Gate.enter(ctx); err != nil {
			return err
		}
		var done []upload
		if j := m.orders.pop(); j != nil {
			done, err = m.perform(ctx, j)
		}
		m.Gate.leave()
		if err != nil {
			return err
		}
		for _, u := range done {
			select {
			case m.uploads <- u:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// perform carries out one order. An order that makes no sense to the worker changes nothing: the orchestrator's lease
// on it runs out, and its operator reads why.
func (m *Miner) perform(ctx context.Context, j *job) ([]upload, error) {
	switch kind := j.order.GetKind().(type) {
	case *message.Order_Ack:
		results, err := m.worker.Acknowledge(kind.Ack)
		if err != nil {
			m.Log.Warn("acknowledgement ignored", "err", err)
		}
		m.acksSeen.Store(m.worker.AcksSeen())
		var done []upload
		for _, r := range results {
			done = append(done, upload{result: r})
		}
		return done, nil
	case *message.Order_Refusal:
		m.Log.Debug("refused", "task", kind.Refusal.GetTask().Key().String(), "reason", kind.Refusal.GetReason())
		m.worker.Drop(kind.Refusal.GetTask(), kind.Refusal.GetAttempt())
	case *message.Order_Cancel:
		m.worker.Drop(kind.Cancel.GetTask(), kind.Cancel.GetAttempt()) // without a task: everything
	case *message.Order_Task:
		return m.do(ctx, kind.Task, j.inputs)
	}
	return nil, nil
}

func (m *Miner) do(ctx context.Context, t *message.Task, inputs [][]byte) ([]upload, error) {
	done := m.labours.task(t.GetId().GetKind())
	result, outputs, err := m.worker.Do(t, inputs)
	done()
	m.acksSeen.Store(m.worker.AcksSeen())
	if err != nil {
		m.Log.Warn("order ignored", "task", t.GetId().Key().String(), "epoch", t.GetId().GetEpoch(), "err", err)
	}
	if result == nil {
		return nil, nil
	}
	kind := t.GetId().GetKind()
	switch id := t.GetId(); kind {
	case message.TaskKind_LOAD:
		if r := new(message.Receipt); message.Decode(result.GetReceipt(), r) == nil && r.GetFault() != message.Fault_FAULT_NONE {
			m.Log.Warn("stage not loaded", "stage", id.GetStage(), "epoch", id.GetEpoch(), "fault", r.GetFault().String())
			break
		}
		m.Log.Info("stage loaded", "stage", id.GetStage(), "epoch", id.GetEpoch())
	case message.TaskKind_INSTALL:
		m.Log.Debug("epoch installed", "stage", id.GetStage(), "epoch", id.GetEpoch())
	}
	if kind == message.TaskKind_INSTALL && m.Save != nil {
		state := m.worker.Save()
		if err := whileFull(ctx, m.full, func() error { return m.Save(state) }); err != nil {
			return nil, fmt.Errorf("save miner state: %w", err)
		}
	}
	return []upload{{result, outputs, kind == message.TaskKind_UPLOAD}}, nil
}

// upload stores outputs and hands their results to the outbox, in the order of the log.
func (m *Miner) upload(ctx context.Context) error {
	for {
		select {
		case u := <-m.uploads:
			for _, b := range u.outputs {
				if err := m.put(ctx, b, u.durable); err != nil {
					return err
				}
				m.uploaded.Add(uint64(len(b.Bytes())))
			}
			if err := m.outbox.add(ctx, u.result); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// put stores a blob. It waits for a store that has no room. A blob whose name somebody took for other bytes is left to
// the orchestrator, which looks, and to whoever fetches it, who reports it.
func (m *Miner) put(ctx context.Context, b message.Blob, durable bool) error {
	put := m.Blobs.Put
	if durable {
		put = m.Blobs.PutDurable
	}
	err := whileFull(ctx, m.full, func() error { _, err := put(ctx, b); return err })
	if errors.Is(err, store.ErrCorrupt) {
		m.Log.Warn("an output is not stored as it should be", "err", err)
		return nil
	}
	return err
}

// full notes that the miner waits for room, or no longer does.
func (m *Miner) full(err error) {
	if err == nil {
		m.Log.Info("there is room again")
		return
	}
	m.Log.Warn("no room: the miner waits until there is", "err", err)
}

// fetch gets a task's inputs. One that is missing or corrupt stays nil, which the worker reports; so does an empty
// reference, which stands for a lost shard.
func (m *Miner) fetch(ctx context.Context, t *message.Task) ([][]byte, error) {
	inputs := make([][]byte, len(t.GetInputs()))
	for i, ref := range t.GetInputs() {
		hash, ok := hashOf(ref)
		if !ok || ref.GetSize() == 0 {
			continue
		}
		b, err := m.Blobs.Get(ctx, hash, ref.GetSize())
		switch {
		case err == nil:
			inputs[i] = b
		case !errors.Is(err, store.ErrMissing) && !errors.Is(err, store.ErrCorrupt):
			return nil, fmt.Errorf("fetch input %d of %s: %w", i, t.GetId().Key(), err)
		}
	}
	return inputs, nil
}
