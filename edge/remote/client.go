package remote

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/protocol/message"
)

// Client reaches one orchestrator. All methods may be called by many goroutines.
type Client struct {
	address  Address
	conn     *grpc.ClientConn
	wrongKey atomic.Pointer[wrongKey] // somebody else answered
	tasks    sync.WaitGroup           // of sessions
	bucket   atomic.Bool              // blobs are in a bucket

	stall    time.Duration // without a byte after which a transfer is tried again
	attempts int           // that reach the orchestrator and bring nothing, after which it fails
	pause    time.Duration // the longest between two
}

// Dial returns a client of the orchestrator at the address. It connects when it is first used, and again after a
// connection was lost.
func Dial(a Address, key ed25519.PrivateKey) (*Client, error) {
	config, err := clientTLS(key, a)
	if err != nil {
		return nil, err
	}
	c := &Client{address: a, stall: 10 * time.Second, attempts: 120, pause: 2 * time.Second}
	dialer := net.Dialer{Timeout: callPatience}
	c.conn, err = grpc.NewClient("passthrough:///"+a.Host,
		grpc.WithContextDialer(func(ctx context.Context, host string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", host) }),
		grpc.WithTransportCredentials(handshakes{config: config, ended: c.shaken}),
		grpc.WithAuthority(serverName),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(windowPerConn),
		grpc.WithReadBufferSize(0),
		grpc.WithWriteBufferSize(connectionBytes),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingPatience}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.5, MaxDelay: time.Second},
			MinConnectTimeout: pingPatience,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", a.Host, err)
	}
	return c, nil
}

// shaken remembers that somebody else answers, until the right one does.
func (c *Client) shaken(err error) {
	var wrong *wrongKey
	errors.As(err, &wrong)
	c.wrongKey.Store(wrong)
}

// Manifest returns what run this is. An orchestrator of another version gives transport.ErrDenied.
func (c *Client) Manifest(ctx context.Context) (*message.Manifest, error) {
	var terms message.RunTerms
	if err := c.call(ctx, "Terms", &message.Ask{}, &terms); err != nil {
		return nil, c.explain(ctx, "ask for the manifest", err)
	}
	if v := terms.GetProtocol(); v != Version {
		return nil, fmt.Errorf("%w: the orchestrator at %s speaks version %d of the protocol, this program version %d: use the same release of iota on both sides",
			transport.ErrDenied, c.address.Host, v, Version)
	}
	c.bucket.Store(terms.GetBucket())
	m := new(message.Manifest)
	if err := message.Decode(terms.GetManifest(), m); err != nil {
		return nil, fmt.Errorf("manifest of %s: %w", c.address.Host, err)
	}
	return m, nil
}

// Status returns the run's status as JSON.
func (c *Client) Status(ctx context.Context) ([]byte, error) {
	var s message.RunStatus
	if err := c.call(ctx, "Status", &message.Ask{}, &s); err != nil {
		return nil, c.explain(ctx, "ask for the status", err)
	}
	return s.GetJson(), nil
}

// call makes a short call, which has a time limit.
func (c *Client) call(ctx context.Context, name string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	return c.conn.Invoke(ctx, method(name), in, out)
}

// Connect opens the session on which messages travel. It returns when the orchestrator has taken it up; one that does
// not admit the key gives transport.ErrDenied.
func (c *Client) Connect(ctx context.Context) (transport.Conn, error) {
	life, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, cancel)
	timer := time.AfterFunc(callPatience, cancel)
	stream, err := c.conn.NewStream(life, &service.Streams[0], method("Session"))
	if err == nil {
		header, e := stream.Header()
		if err = e; err == nil && header == nil {
			err = stream.RecvMsg(new([]byte))
		}
	}
	if (!stop() || !timer.Stop()) && err == nil {
		err = status.Error(codes.DeadlineExceeded, "no answer")
	}
	if err != nil {
		cancel()
		return nil, c.explain(ctx, "open a session", err)
	}
	s := newSession(string(c.address.Key))
	received := make(chan struct{})
	c.tasks.Go(func() { s.receive(stream, nil); close(received) })
	c.tasks.Go(func() {
		defer cancel()
		s.send(stream)
		stream.CloseSend()
		farewell := time.NewTimer(time.Second)
		defer farewell.Stop()
		select {
		case <-received:
		case <-farewell.C:
		}
	})
	return s, nil
}

// Close ends the connection, and with it all sessions and transfers.
func (c *Client) Close() error {
	err := c.conn.Close()
	c.tasks.Wait()
	return err
}
