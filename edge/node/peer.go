package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/protocol/message"
)

// peer is a participant's connection, seen from the hub. The connection proved the key.
type peer struct {
	conn    transport.Conn
	key     []byte
	session []byte // empty before it registered; owned by the hub's goroutine
	refused bool   // it has no part in the run: nothing more of it is journalled; owned by the hub's goroutine

	pace   *rate.Limiter // of what its key may have journalled
	beat   time.Time     // of the last heartbeat that was; owned by its reader
	orders chan []byte
	once   sync.Once
}

// paces are what keys may have journalled, over all their connections.
type paces map[string]*rate.Limiter

// of returns the pace of a key. Those that are not in use are forgotten when there are too many.
func (p paces) of(key string) *rate.Limiter {
	if l := p[key]; l != nil {
		return l
	}
	if len(p) >= maxPaces {
		maps.DeleteFunc(p, func(_ string, l *rate.Limiter) bool { return l.Tokens() >= peerBurst })
	}
	l := rate.NewLimiter(peerRate, peerBurst)
	if len(p) < maxPaces {
		p[key] = l
	}
	return l
}

// close ends the connection. Its reader notices and tells the core.
func (p *peer) close() {
	if p != nil {
		p.conn.Close()
	}
}

// finish lets what is queued leave and closes then. Only the hub's goroutine calls it, as it alone queues orders.
func (p *peer) finish() { p.once.Do(func() { close(p.orders) }) }

// write sends the queued orders. A participant that does not take them is disconnected, not waited for.
func (p *peer) write(ctx context.Context) {
	defer p.close()
	for {
		select {
		case b, ok := <-p.orders:
			if !ok {
				return
			}
			sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendPatience)
			err := p.conn.Send(sending, b)
			cancel()
			if err != nil {
				return
			}
		case <-ctx.Done():
			p.flush()
			return
		}
	}
}

// flush sends what is queued when the hub ends, as far as the connection takes it at once.
func (p *peer) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), sendPatience)
	defer cancel()
	for {
		select {
		case b, ok := <-p.orders:
			if !ok || p.conn.Send(ctx, b) != nil {
				return
			}
		default:
			return
		}
	}
}

// read verifies what a participant sends and queues it for the core.
func (h *Hub) read(ctx context.Context, p *peer) {
	err := h.readAll(ctx, p)
	if err != nil && !errors.Is(err, transport.ErrClosed) && ctx.Err() == nil {
		h.Log.Warn("connection closed", "miner", message.Short(p.key), "err", err)
	}
	p.close()
	select {
	case h.events <- arrival{from: p}:
	case <-ctx.Done():
	}
}

func (h *Hub) readAll(ctx context.Context, p *peer) error {
	for first := true; ; first = false {
		b, err := p.conn.Recv(ctx)
		if err != nil {
			return err
		}
		var envelope message.Envelope
		if err := message.Decode(b, &envelope); err != nil {
			return err
		}
		if first != (envelope.GetRegister() != nil) {
			return errors.New("the first message, and no other, registers")
		}
		if p.idle(&envelope) {
			continue
		}
		if err := p.admitted(ctx, len(b)); err != nil {
			return err
		}
		a := arrival{from: p}
		if a.event, a.receipt, err = h.verify(ctx, p.key, &envelope); err != nil {
			return err
		}
		select {
		case h.events <- a:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// admitted waits until a message fits into what its sender may have journalled: nobody else pays for a flood.
func (p *peer) admitted(ctx context.Context, size int) error {
	return p.pace.WaitN(ctx, min(1+size>>10, peerBurst))
}

// idle reports whether a message is a heartbeat that comes too soon to matter.
func (p *peer) idle(e *message.Envelope) bool {
	if e.GetHeartbeat() == nil {
		return false
	}
	now := time.Now()
	if now.Sub(p.beat) < heartbeatEvery/5 {
		return true
	}
	p.beat = now
	return false
}

// verify makes an event of a message whose signature holds and whose blobs are stored. With a result comes its receipt.
func (h *Hub) verify(ctx context.Context, key []byte, e *message.Envelope) (*message.Event, *message.Receipt, error) {
	event := &message.Event{Miner: key}
	switch kind := e.GetKind().(type) {
	case *message.Envelope_Register:
		if n := proto.Size(kind.Register); n > maxRegister {
			return nil, nil, fmt.Errorf("a registration of %d bytes: more than %d are not accepted", n, maxRegister)
		}
		event.Kind = &message.Event_Register{Register: kind.Register}
	case *message.Envelope_Heartbeat:
		event.Kind = &message.Event_Heartbeat{Heartbeat: kind.Heartbeat}
	case *message.Envelope_Result:
		if !kind.Result.Verify(key) {
			return nil, nil, errors.New("a result whose signature does not hold")
		}
		receipt, err := kind.Result.Open()
		if err != nil {
			return nil, nil, err
		}
		event.Kind = &message.Event_Result{Result: kind.Result}
		err = h.checkStored(ctx, receipt)
		if err == nil {
			err = h.checkContent(ctx, receipt)
		}
		return event, receipt, err
	default:
		return nil, nil, errors.New("a message of unknown kind")
	}
	return event, nil, nil
}

// checkStored returns an error unless every blob that a receipt claims is in the store, in the size that it claims. The
// store named it by its content; whoever fetches it gets that content or an error.
func (h *Hub) checkStored(ctx context.Context, r *message.Receipt) error {
	if r.GetFault() != message.Fault_FAULT_NONE || !r.GetTask().GetKind().Stored() {
		return nil
	}
	if n := len(r.GetOutputs()); n > 1 && r.GetTask().GetKind() != message.TaskKind_SHARE {
		return fmt.Errorf("%s: %d outputs, where a task has one at most", r.GetTask().Key(), n)
	}
	sizes := map[store.Hash]uint64{} // a blob that is named often is looked at once
	for _, ref := range r.GetOutputs() {
		hash, ok := hashOf(ref)
		if !ok {
			return fmt.Errorf("%s: an output without a hash", r.GetTask().Key())
		}
		size, known := sizes[hash]
		if !known {
			var err error
			if size, err = h.Blobs.Size(ctx, hash); err != nil {
				return fmt.Errorf("%s: output: %w", r.GetTask().Key(), err)
			}
			sizes[hash] = size
		}
		if size != ref.GetSize() {
			return fmt.Errorf("%s: output %s has %d bytes, not %d", r.GetTask().Key(), hash.Short(), size, ref.GetSize())
		}
	}
	return nil
}

// checkStays is checkStored, and no blob may be doomed.
func (h *Hub) checkStays(ctx context.Context, r *message.Receipt) error {
	if r.GetTask().GetKind().Stored() {
		for _, ref := range r.GetOutputs() {
			if hash, ok := hashOf(ref); ok && h.doomed[hash] {
				return fmt.Errorf("%s: output %s was released, and is being deleted", r.GetTask().Key(), hash.Short())
			}
		}
	}
	return h.checkStored(ctx, r)
}

// admit turns what arrived into the events that the core is to see.
func (h *Hub) admit(ctx context.Context, a arrival) []*message.Event {
	p := a.from
	if p == nil {
		return []*message.Event{a.event}
	}
	current := h.peers[string(p.key)]
	switch {
	case a.event == nil && current == p:
		delete(h.peers, string(p.key))
		p.finish()
		return []*message.Event{p.gone()}
	case a.event == nil:
		p.finish()
		return nil
	case a.event.GetRegister() != nil:
		p.session = a.event.GetRegister().GetSession()
		h.peers[string(p.key)] = p
		if current == nil {
			return []*message.Event{a.event}
		}
		h.replace(current, p)
		return []*message.Event{current.gone(), a.event}
	case current != p, p.refused:
		return nil
	}
	if a.receipt != nil {
		// The blobs that the reader saw may have been deleted since, or be about to be.
		if err := h.checkStays(ctx, a.receipt); err != nil {
			h.Log.Warn("connection closed", "miner", message.Short(p.key), "err", err)
			p.close()
			return nil
		}
	}
	return []*message.Event{a.event}
}

// replace ends a connection whose participant dialled anew. If another process did, which has the same key but another
// session, the one that is replaced is told and does not come back: otherwise the two would drive each other out for ever.
func (h *Hub) replace(old, by *peer) {
	if bytes.Equal(old.session, by.session) {
		old.close()
		return
	}
	h.Log.Warn("a second process with the same key takes the place of the first", "miner", message.Short(by.key))
	refusal := &message.Refusal{Reason: "another process has joined with the same key: give each a --dir of its own"}
	select {
	case old.orders <- message.Encode(&message.Order{Kind: &message.Order_Refusal{Refusal: refusal}}):
	default:
	}
	old.finish()
}

func (p *peer) gone() *message.Event {
	return &message.Event{Miner: p.key, Kind: &message.Event_Gone{Gone: &message.Gone{Session: p.session}}}
}

// noteRefusals marks the participants that the core turned away.
func (h *Hub) noteRefusals(out []*message.Outbound) {
	for _, o := range out {
		if r := o.GetOrder().GetRefusal(); r != nil && r.GetTask() == nil {
			if p := h.peers[string(o.GetTo())]; p != nil {
				p.refused = true
			}
		}
	}
}

// send queues an order. One that finds the queue full ends the connection: the core must not wait, and the miner gets
// its standing orders again when it is back.
func (h *Hub) send(key []byte, order *message.Order) {
	p := h.peers[string(key)]
	if p == nil {
		return
	}
	select {
	case p.orders <- message.Encode(order):
	default:
		h.Log.Warn("connection closed: it does not take its orders", "miner", message.Short(key))
		p.close()
	}
	if p.refused {
		delete(h.peers, string(key))
		p.finish()
	}
}

// dismiss ends all connections after their last orders.
func (h *Hub) dismiss() {
	for _, p := range h.peers {
		p.finish()
	}
}
