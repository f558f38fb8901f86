package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/protocol/message"
)

func task(kind message.TaskKind, batch uint64) *message.Order {
	return &message.Order{Kind: &message.Order_Task{Task: &message.Task{
		Id: &message.TaskID{Kind: kind, Batch: batch}, Attempt: 1}}}
}

func ack(number uint64) *message.Order {
	return &message.Order{Kind: &message.Order_Ack{Ack: &message.Ack{Number: number}}}
}

func cancelled(kind message.TaskKind, batch uint64) *message.Order {
	return &message.Order{Kind: &message.Order_Cancel{Cancel: &message.Cancel{
		Task: &message.TaskID{Kind: kind, Batch: batch}, Attempt: 1}}}
}

func nameOf(o *message.Order) string {
	switch kind := o.GetKind().(type) {
	case *message.Order_Ack:
		return fmt.Sprintf("ack %d", kind.Ack.GetNumber())
	case *message.Order_Cancel:
		return "cancel"
	}
	return fmt.Sprintf("%s %d", o.GetTask().GetId().GetKind(), o.GetTask().GetId().GetBatch())
}

// drained pops all jobs, fetching as it goes.
func drained(t *testing.T, q *orders) []string {
	t.Helper()
	var names []string
	for {
		q.tasks.Wait()
		j := q.pop()
		if j == nil {
			return names
		}
		names = append(names, nameOf(j.order))
	}
}

func none(context.Context, *message.Task) ([][]byte, error) { return nil, nil }

func TestUrgentOrdersComeFirst(t *testing.T) {
	q := newOrders(t.Context(), none)
	for _, o := range []*message.Order{
		task(message.TaskKind_FORWARD, 1), task(message.TaskKind_EVALUATE, 2), task(message.TaskKind_FORWARD, 3),
		task(message.TaskKind_BACKWARD, 4), task(message.TaskKind_LOSS, 5), task(message.TaskKind_REDUCE, 6),
		task(message.TaskKind_INSTALL, 7), ack(1), ack(2),
	} {
		if err := q.push(o); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"ack 1", "ack 2", "REDUCE 6", "INSTALL 7", "BACKWARD 4", "LOSS 5", "FORWARD 1", "EVALUATE 2", "FORWARD 3"}
	if got := drained(t, q); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestCancellationTakesItsTaskOut(t *testing.T) {
	q := newOrders(t.Context(), none)
	for _, o := range []*message.Order{
		task(message.TaskKind_FORWARD, 1), task(message.TaskKind_FORWARD, 2), cancelled(message.TaskKind_FORWARD, 1),
		task(message.TaskKind_FORWARD, 3),
	} {
		if err := q.push(o); err != nil {
			t.Fatal(err)
		}
	}
	if got := drained(t, q); !slices.Equal(got, []string{"cancel", "FORWARD 2", "FORWARD 3"}) {
		t.Errorf("got %q", got)
	}
	for _, o := range []*message.Order{
		task(message.TaskKind_FORWARD, 1), task(message.TaskKind_LOSS, 2), {Kind: &message.Order_Cancel{Cancel: &message.Cancel{}}},
	} {
		if err := q.push(o); err != nil {
			t.Fatal(err)
		}
	}
	if got := drained(t, q); !slices.Equal(got, []string{"cancel"}) {
		t.Errorf("after a cancellation of everything: %q", got)
	}
}

func TestTaskWhoseInputsAreThereOvertakesOneThatWaits(t *testing.T) {
	arrive := make(chan struct{})
	q := newOrders(t.Context(), func(_ context.Context, t *message.Task) ([][]byte, error) {
		if t.GetId().GetBatch() == 1 {
			<-arrive
		}
		return nil, nil
	})
	for _, o := range []*message.Order{task(message.TaskKind_FORWARD, 1), task(message.TaskKind_FORWARD, 2)} {
		if err := q.push(o); err != nil {
			t.Fatal(err)
		}
	}
	var j *job
	for j == nil {
		<-q.changed
		j = q.pop()
	}
	if nameOf(j.order) != "FORWARD 2" {
		t.Errorf("got %s", nameOf(j.order))
	}
	close(arrive)
	if got := drained(t, q); !slices.Equal(got, []string{"FORWARD 1"}) {
		t.Errorf("then %q", got)
	}
}

func TestQueueOfOrdersIsBounded(t *testing.T) {
	q := newOrders(t.Context(), none)
	var err error
	n := 0
	for ; err == nil && n < 2*maxOrders; n++ {
		err = q.push(ack(uint64(n)))
	}
	if err == nil || n != maxOrders+1 {
		t.Errorf("%d orders, %v", n, err)
	}
}

func result(n uint64) *message.Result {
	return &message.Result{Receipt: message.Encode(&message.Receipt{Task: &message.TaskID{Kind: message.TaskKind_FORWARD, Batch: n}, Attempt: 1})}
}

// sent receives n results at the other end of a connection on which an outbox sends, and ends it.
func sent(t *testing.T, b *outbox, n int) []uint64 {
	t.Helper()
	near, far := transport.Pipe(nil, "", "")
	ended := make(chan error)
	go func() { ended <- b.send(t.Context(), near) }()
	var batches []uint64
	for range n {
		m, err := far.Recv(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var e message.Envelope
		if err := message.Decode(m, &e); err != nil {
			t.Fatal(err)
		}
		r, err := e.GetResult().Open()
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, r.GetTask().GetBatch())
	}
	far.Close()
	token(b.changed) // wakes the sender, whose next message finds the connection closed
	if err := b.add(t.Context(), result(99)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, transport.ErrClosed) {
		t.Errorf("sending ended with %v", err)
	}
	return batches
}

func TestOutboxSendsAgainWhatWasNotHad(t *testing.T) {
	b := newOutbox()
	for n := range uint64(4) {
		if err := b.add(t.Context(), result(n)); err != nil {
			t.Fatal(err)
		}
	}
	if got := sent(t, b, 4); !slices.Equal(got, []uint64{0, 1, 2, 3}) {
		t.Fatalf("sent %v", got)
	}
	if _, ok := b.rewind(message.HashBytes(result(1).GetReceipt())); !ok {
		t.Fatal("the log does not continue")
	}
	if got := sent(t, b, 3); !slices.Equal(got, []uint64{2, 3, 99}) {
		t.Errorf("sent again %v", got)
	}
	if _, ok := b.rewind(message.HashBytes([]byte("another log"))); ok {
		t.Error("it continues another log")
	}
	if _, ok := b.rewind(nil); !ok {
		t.Error("it does not begin anew")
	}
	if !b.did(task(message.TaskKind_FORWARD, 3).GetTask()) || b.did(task(message.TaskKind_FORWARD, 4).GetTask()) {
		t.Error("it does not know what was done")
	}
}

func TestOutboxIsBounded(t *testing.T) {
	b := newOutbox()
	ctx, cancel := context.WithCancel(t.Context())
	var n uint64
	for ; n < maxOutbox; n++ {
		if err := b.add(ctx, result(n)); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := b.add(ctx, result(n)); !errors.Is(err, context.Canceled) {
		t.Errorf("one more: %v", err)
	}
	if len(b.entries) != maxOutbox {
		t.Errorf("%d entries", len(b.entries))
	}
}
