//go:build linux

package main

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// wire stands between participants and the orchestrator and misbehaves as it is told. It ends with the test.
type wire struct {
	net.Listener
	to    string
	tasks sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	open  chan struct{} // closed while bytes may pass
	rate  int           // bytes per second and direction of a connection, 0 for any
}

// lay lays a wire to the orchestrator.
func (c *chaos) lay() *wire {
	c.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.Fatal(err)
	}
	w := &wire{Listener: l, to: c.direct.Host, open: make(chan struct{})}
	close(w.open)
	w.tasks.Go(w.serve)
	c.T.Cleanup(w.end)
	c.join.Host = l.Addr().String()
	return w
}

func (w *wire) serve() {
	for {
		near, err := w.Accept()
		if err != nil {
			return
		}
		far, err := net.DialTimeout("tcp", w.to, time.Second)
		if err != nil { // a connection that the orchestrator refuses ends likewise
			near.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, near, far)
		w.mu.Unlock()
		for _, ends := range [][2]net.Conn{{near, far}, {far, near}} {
			w.tasks.Go(func() {
				defer near.Close()
				defer far.Close()
				w.carry(ends[0], ends[1])
			})
		}
	}
}

// carry moves bytes until either end is closed.
func (w *wire) carry(from, to net.Conn) {
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		w.mu.Lock()
		open, rate := w.open, w.rate
		w.mu.Unlock()
		<-open
		if rate > 0 {
			pass(time.Duration(n) * time.Second / time.Duration(rate))
		}
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut lets nothing pass until mend. Nobody is told: bytes are kept, as by a link that is down.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = make(chan struct{})
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.open)
}

// slow sets the bytes per second.
func (w *wire) slow(rate int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate = rate
}

// reset breaks one connection at random, as a router does that forgets it: what is under way is lost.
func (w *wire) reset(rng *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.conns) == 0 {
		return
	}
	i := rng.IntN(len(w.conns))
	if tcp, ok := w.conns[i].(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset, not an end
	}
	w.conns[i].Close()
	w.conns = append(w.conns[:i], w.conns[i+1:]...)
}

// end closes everything.
func (w *wire) end() {
	w.Close()
	w.mu.Lock()
	select {
	case <-w.open:
	default:
		close(w.open)
	}
	for _, c := range w.conns {
		c.Close()
	}
	w.rate = 0
	w.mu.Unlock()
	w.tasks.Wait()
}
