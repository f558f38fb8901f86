package node

import (
	"bytes"
	"context"
	"sync"

	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/protocol/message"
)

// outbox keeps a miner's signed results in the order of its log: those that wait to be sent, and the newest of those
// that were sent, since a connection may lose some.
type outbox struct {
	mu      sync.Mutex
	entries []entry
	next    int           // first entry that this connection has not sent
	changed chan struct{} // holds a token when there is more to send
	room    chan struct{} // holds a token when there is room again
}

// entry is a result with its place in the log.
type entry struct {
	hash   []byte // of the receipt
	result *message.Result
	task   message.Key
	try    uint32
	refs   []*message.BlobRef // stored outputs
}

func newOutbox() *outbox {
	return &outbox{changed: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// add queues a result. It waits while too many are unsent.
func (b *outbox) add(ctx context.Context, result *message.Result) error {
	e := entry{hash: message.HashBytes(result.GetReceipt()), result: result}
	if r, err := result.Open(); err == nil {
		e.task, e.try = r.GetTask().Key(), r.GetAttempt()
		if r.GetTask().GetKind().Stored() {
			e.refs = r.GetOutputs()
		}
	}
	for {
		b.mu.Lock()
		if len(b.entries)-b.next < maxOutbox {
			b.entries = append(b.entries, e)
			if spare := len(b.entries) - 2*maxOutbox; spare > 0 {
				b.entries = append([]entry(nil), b.entries[spare:]...)
				b.next -= spare
			}
			b.mu.Unlock()
			token(b.changed)
			return nil
		}
		b.mu.Unlock()
		select {
		case <-b.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// rewind makes the entry after the receipt of that hash the next to be sent. It returns the blobs that the entries from
// there on claim, and false if the log does not continue there.
func (b *outbox) rewind(had []byte) ([]*message.BlobRef, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := -1
	if len(had) == 0 {
		at = 0
	}
	for i := len(b.entries) - 1; i >= 0 && at < 0; i-- {
		if bytes.Equal(b.entries[i].hash, had) {
			at = i + 1
		}
	}
	if at < 0 {
		return nil, false
	}
	b.next = at
	var refs []*message.BlobRef
	for _, e := range b.entries[at:] {
		refs = append(refs, e.refs...)
	}
	return refs, true
}

// did reports whether the result of an attempt is in the outbox: it was sent, or will be.
func (b *outbox) did(t *message.Task) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.entries) - 1; i >= 0; i-- {
		if e := b.entries[i]; e.try == t.GetAttempt() && e.task == t.GetId().Key() {
			return true
		}
	}
	return false
}

// send sends what waits, in order, until the connection or ctx ends.
func (b *outbox) send(ctx context.Context, conn transport.Conn) error {
	for {
		b.mu.Lock()
		var result *message.Result
		if b.next < len(b.entries) {
			result = b.entries[b.next].result
			b.next++
		}
		b.mu.Unlock()
		if result == nil {
			select {
			case <-b.changed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		token(b.room)
		e := message.Envelope{Kind: &message.Envelope_Result{Result: result}}
		if err := conn.Send(ctx, message.Encode(&e)); err != nil {
			return err
		}
	}
}
