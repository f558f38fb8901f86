package remote

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// door lets TCP connections in. Those that have not proved a key are few, and a new one takes the place of the oldest:
// so a flood of them costs little memory, and a handshake, which is short, still finds time.
type door struct {
	net.Listener
	total, perAddress int
	members           *members

	mu     sync.Mutex
	open   []*tcp // in order of arrival
	closed bool
}

// tcp is a connection that has not proved a key yet, or has.
type tcp struct {
	net.Conn
	address string
	door    *door
	once    sync.Once

	member *member // once it proved a key; guarded by members.mu, like the next
	closed bool
}

// Accept returns the next connection.
func (d *door) Accept() (net.Conn, error) {
	for {
		raw, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := (&tcp{Conn: raw, address: addressOf(raw), door: d}); d.enter(c) {
			return c, nil
		}
		raw.Close()
	}
}

// enter remembers a connection until it is through the door or closed.
func (d *door) enter(c *tcp) bool {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return false
	}
	var evicted *tcp
	same, oldest := 0, -1
	for i, o := range d.open {
		if o.address == c.address {
			if same++; oldest < 0 {
				oldest = i
			}
		}
	}
	switch {
	case same >= d.perAddress:
		evicted = d.open[oldest]
	case len(d.open) >= d.total:
		evicted = d.open[0]
	}
	d.open = append(d.open, c)
	d.mu.Unlock()
	if evicted != nil {
		evicted.Close()
	}
	return true
}

// through forgets a connection.
func (d *door) through(c *tcp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.open, c); i >= 0 {
		d.open = slices.Delete(d.open, i, i+1)
	}
}

// Close stops listening and closes the connections that have not proved a key.
func (d *door) Close() error {
	d.mu.Lock()
	d.closed = true
	open := slices.Clone(d.open)
	d.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
	return d.Listener.Close()
}

// Close may be called more than once, by who evicts and by who owns the connection.
func (c *tcp) Close() (err error) {
	c.once.Do(func() {
		c.door.through(c)
		c.door.members.leave(c)
		err = c.Conn.Close()
	})
	return err
}

// addressOf names whom a connection comes from: an IPv4 address, or the network of an IPv6 address, of which a host has
// more than anybody can count.
func addressOf(c net.Conn) string {
	a, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	ip := a.Addr().Unmap()
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}
