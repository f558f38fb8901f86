package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// backlog bounds the connections that were dialled and not yet accepted.
const backlog = 64

// Network joins many participants, each known by its key and behind a link of its own, to one listener, within the
// process. All methods may be called by many goroutines.
type Network struct {
	link Link

	mu       sync.Mutex
	links    map[string]*Shaper
	listener *Desk
}

// NewNetwork returns a network on which every participant has such a link.
func NewNetwork(link Link) *Network {
	return &Network{link: link, links: make(map[string]*Shaper)}
}

// Link returns the participant's link, to charge a store's traffic to it.
func (n *Network) Link(key string) *Shaper {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok := n.links[key]
	if !ok {
		s = NewShaper(n.link)
		n.links[key] = s
	}
	return s
}

// Listen starts to accept connections. There is one listener at a time; a closed one may be followed by another.
func (n *Network) Listen() (*Desk, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listener != nil && !n.listener.isClosed() {
		return nil, errors.New("listen: there is a listener already")
	}
	n.listener = &Desk{waiting: make(chan *End, backlog), closed: make(chan struct{})}
	return n.listener, nil
}

// Dial connects the participant to the listener, which takes one round trip on its link. It returns ErrRefused when
// nobody listens or too many connections wait to be accepted.
func (n *Network) Dial(ctx context.Context, key string) (*End, error) {
	link := n.Link(key)
	for _, up := range []bool{true, false} {
		if err := link.transfer(ctx, up, 0); err != nil {
			return nil, fmt.Errorf("dial: %w", err)
		}
	}
	n.mu.Lock()
	l := n.listener
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial: nobody listens: %w", ErrRefused)
	}
	dialled, accepted := Pipe(link, "", key)
	if err := l.offer(accepted); err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	return dialled, nil
}

// Desk accepts the connections that participants dial, a Listener.
type Desk struct {
	waiting chan *End

	mu     sync.Mutex // held from "is it closed" to "it is queued"
	closed chan struct{}
}

// offer queues a connection for Accept.
func (l *Desk) offer(c *End) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed() {
		return fmt.Errorf("nobody listens: %w", ErrRefused)
	}
	select {
	case l.waiting <- c:
		return nil
	default:
		return fmt.Errorf("%d connections wait to be accepted: %w", backlog, ErrRefused)
	}
}

// Accept returns the next connection; its Remote is the key that dialled. After Close it returns ErrClosed.
func (l *Desk) Accept(ctx context.Context) (Conn, error) {
	if l.isClosed() {
		return nil, ErrClosed
	}
	select {
	case c := <-l.waiting:
		return c, nil
	case <-l.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close stops accepting, and closes connections that nobody accepted. Accepted ones live on.
func (l *Desk) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed() {
		return nil
	}
	close(l.closed)
	for {
		select {
		case c := <-l.waiting:
			c.Close()
		default:
			return nil
		}
	}
}

func (l *Desk) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}
