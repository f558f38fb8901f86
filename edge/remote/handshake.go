package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// handshakes are the credentials of either end.
type handshakes struct {
	config *tls.Config
	// enter takes in a connection whose key is proven; nil at the dialler's end.
	enter func(raw net.Conn, key string) (*member, error)
	// ended is told how a handshake ended: nil if it went well.
	ended func(error)
}

// identity is what an orchestrator knows of a connection.
type identity struct {
	credentials.CommonAuthInfo
	member *member
	raw    net.Conn
}

// AuthType names how the peer proved who it is.
func (identity) AuthType() string { return "ed25519" }

// ClientHandshake proves both keys, within ctx.
func (h handshakes) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	corked := &cork{Conn: raw}
	conn := tls.Client(corked, h.config)
	err := conn.HandshakeContext(ctx)
	if err == nil {
		err = negotiated(conn)
	}
	h.ended(err)
	if err != nil {
		raw.Close()
		return nil, nil, err
	}
	return sealed{conn, corked}, privacy(nil, raw), nil
}

// ServerHandshake proves both keys; the connection has a deadline.
func (h handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	corked := &cork{Conn: raw}
	conn := tls.Server(corked, h.config)
	err := conn.Handshake()
	if err == nil {
		err = negotiated(conn)
	}
	var m *member
	if err == nil {
		key, _ := peerKey(conn.ConnectionState()) // the handshake has looked at it
		m, err = h.enter(raw, string(key))
	}
	if err != nil {
		h.ended(fmt.Errorf("%s: %w", raw.RemoteAddr(), err))
		raw.Close()
		return nil, nil, err
	}
	return sealed{conn, corked}, privacy(m, raw), nil
}

func privacy(m *member, raw net.Conn) identity {
	return identity{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, m, raw}
}

// negotiated holds a peer to HTTP/2.
func negotiated(conn *tls.Conn) error {
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		return errors.New("the other end does not speak HTTP/2")
	}
	return nil
}

// Info, Clone and OverrideServerName complete the interface of gRPC.
func (h handshakes) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone returns the same credentials, which nothing changes.
func (h handshakes) Clone() credentials.TransportCredentials { return h }

// OverrideServerName does nothing: names count for nothing.
func (h handshakes) OverrideServerName(string) error { return nil }

// sealed is a TLS connection that hands all records of one Write to the system at once.
type sealed struct {
	*tls.Conn
	cork *cork
}

func (s sealed) Write(b []byte) (int, error) {
	s.cork.hold()
	n, err := s.Conn.Write(b)
	if e := s.cork.release(); err == nil {
		err = e
	}
	return n, err
}

// cork gathers what TLS writes while it is held.
type cork struct {
	net.Conn
	mu     sync.Mutex
	holds  bool
	queued []byte
}

// maxCorked bounds what is gathered, in bytes.
const maxCorked = 256 << 10

func (c *cork) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds = true
}

func (c *cork) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds = false
	return c.flush()
}

func (c *cork) flush() error {
	if len(c.queued) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.queued)
	c.queued = c.queued[:0]
	return err
}

func (c *cork) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.holds {
		return c.Conn.Write(b)
	}
	c.queued = append(c.queued, b...)
	if len(c.queued) < maxCorked {
		return len(b), nil
	}
	return len(b), c.flush()
}
