package transport

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// End is one end of a connection within the process, a Conn. All methods may be called by many goroutines. It needs no
// goroutine of its own: a message carries the time of its arrival, and Recv waits for that.
type End struct {
	remote  string
	in, out *direction
}

// Pipe returns the two ends of a new connection; remote names say who is at the other end of each. The link is that of
// a's owner: what a sends passes its upward lane, what b sends its downward lane. A nil link is unlimited.
func Pipe(link *Shaper, remoteOfA, remoteOfB string) (a, b *End) {
	ab := &direction{link: link, up: true, changed: make(chan struct{})}
	ba := &direction{link: link, changed: make(chan struct{})}
	return &End{remote: remoteOfA, in: ba, out: ab}, &End{remote: remoteOfB, in: ab, out: ba}
}

// Remote names who is at the other end: for an accepted connection, the key that dialled.
func (c *End) Remote() string { return c.remote }

// Send queues one message, which belongs to the receiver from now on. It waits while the queue is full, until ctx ends.
// After either end closed it returns ErrClosed; a message that was queued before may still be lost with its receiver.
func (c *End) Send(ctx context.Context, b []byte) error {
	if len(b) > MaxMessage {
		return fmt.Errorf("send: message of %d bytes exceeds %d", len(b), MaxMessage)
	}
	return c.out.send(ctx, b)
}

// Recv returns the next message. When the other end closed, what it had sent before comes first, then ErrClosed.
func (c *End) Recv(ctx context.Context) ([]byte, error) { return c.in.recv(ctx) }

// Close closes both directions. The other end still receives what was sent; this one receives nothing more.
func (c *End) Close() error {
	c.out.close(false)
	c.in.close(true)
	return nil
}

// direction is a bounded queue from one end to the other.
type direction struct {
	link *Shaper
	up   bool

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change below
	queue   []item
	bytes   int
	last    time.Time // arrival of the newest message so far
	closed  bool      // no more is sent
	gone    bool      // nobody receives
}

type item struct {
	message []byte
	arrival time.Time
}

// signal wakes everyone who waits. The lock is held.
func (d *direction) signal() {
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *direction) send(ctx context.Context, b []byte) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.mu.Lock()
		if d.closed || d.gone {
			d.mu.Unlock()
			return ErrClosed
		}
		if len(d.queue) < queueMessages && d.bytes+len(b) <= queueBytes {
			_, arrival := d.link.reserve(d.up, len(b))
			d.last = arrival
			d.queue = append(d.queue, item{b, arrival})
			d.bytes += len(b)
			d.signal()
			d.mu.Unlock()
			return nil
		}
		changed := d.changed
		d.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *direction) recv(ctx context.Context) ([]byte, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b, wait, changed, err := d.take()
		if err != nil || changed == nil {
			return b, err
		}
		if err := pause(ctx, wait, changed); err != nil {
			return nil, err
		}
	}
}

// take returns the first message if it has arrived, and a nil channel. Else it returns a channel that is closed at the
// next change, and, when a message is on its way, how long until it arrives.
func (d *direction) take() (b []byte, wait time.Duration, changed <-chan struct{}, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return nil, 0, nil, ErrClosed
	}
	if len(d.queue) == 0 {
		if !d.closed {
			return nil, 0, d.changed, nil
		}
		if wait = time.Until(d.last); wait > 0 {
			return nil, wait, d.changed, nil
		}
		return nil, 0, nil, ErrClosed
	}
	first := d.queue[0]
	if wait = time.Until(first.arrival); wait > 0 {
		return nil, wait, d.changed, nil
	}
	d.queue[0] = item{}
	d.queue = d.queue[1:]
	d.bytes -= len(first.message)
	d.signal()
	return first.message, 0, nil, nil
}

// pause waits for a change, for the time if it is not 0, or for the end of ctx.
func pause(ctx context.Context, wait time.Duration, changed <-chan struct{}) error {
	var expired <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-expired:
	case <-changed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// close ends the direction: by its receiver (gone), who drops the queue, or by its sender, whose close travels like a
// message.
func (d *direction) close(gone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if gone {
		d.gone, d.queue, d.bytes = true, nil, 0
	} else if !d.closed {
		d.closed = true
		if !d.gone {
			_, d.last = d.link.reserve(d.up, 0)
		}
	}
	d.signal()
}
