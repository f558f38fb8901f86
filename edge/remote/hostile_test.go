package remote

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/protocol/message"
)

func TestSilentSessionIsEnded(t *testing.T) {
	s := open(t, func(c *ServerConfig) { c.Limits.Silence = 50 * time.Millisecond })
	dialled, accepted := s.connect(t, s.dial(t, "miner"))
	for _, end := range []transport.Conn{dialled, accepted} {
		if _, err := end.Recv(t.Context()); !errors.Is(err, transport.ErrClosed) {
			t.Error(err)
		}
	}
}

func TestReaderThatTakesNothingHoldsNobodyUp(t *testing.T) {
	s := open(t, func(c *ServerConfig) { c.Limits.Linger = 50 * time.Millisecond })
	_, accepted := s.connect(t, s.dial(t, "miner"))
	// The dialler takes one message and no more; what the windows hold is soon full.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for err := error(nil); err == nil; {
		err = accepted.Send(ctx, make([]byte, 1<<20))
	}
	accepted.Close()
	s.Close()
}

func TestStalledUploadIsEndedAndCanBeGoneOnWith(t *testing.T) {
	s := open(t, func(c *ServerConfig) { c.Limits.Stall = 50 * time.Millisecond })
	c := s.dial(t, "miner")
	s.connect(t, c)
	b := blob(1 << 20)
	stream, err := c.conn.NewStream(t.Context(), &service.Streams[1], method("Put"))
	if err != nil {
		t.Fatal(err)
	}
	stream.SendMsg(&message.Piece{Kind: &message.Piece_Upload{Upload: &message.Upload{Blob: b.Ref()}}})
	stream.SendMsg(pack(b.Bytes()[:1000]))
	if err := stream.RecvMsg(new(message.Holding)); status.Code(err) != codes.DeadlineExceeded {
		t.Fatal(err)
	}
	h, err := c.holding(t.Context(), b.Hash())
	for status.Code(err) == codes.Aborted {
		h, err = c.holding(t.Context(), b.Hash())
	}
	if err != nil || h.GetHeld() != 1000 {
		t.Fatalf("%v, %v", h, err)
	}
	if _, err := c.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// TestHalfOpenConnectionsAreBounded opens thousands of connections that prove no key.
func TestHalfOpenConnectionsAreBounded(t *testing.T) {
	s := open(t, func(c *ServerConfig) { c.Limits.HalfOpen = 64; c.Limits.Handshake = time.Minute })
	c := s.dial(t, "miner")
	dialled, accepted := s.connect(t, c)
	var open []net.Conn
	defer func() {
		for _, one := range open {
			one.Close()
		}
	}()
	for range 2000 {
		one, err := net.Dial("tcp", s.address.Host)
		if err != nil {
			break // the machine's own bound
		}
		open = append(open, one)
	}
	// A newcomer and the one that is in are served all the same.
	if _, err := s.dial(t, "newcomer").Manifest(t.Context()); err != nil {
		t.Error(err)
	}
	go dialled.Send(t.Context(), []byte("a result"))
	if b, err := accepted.Recv(t.Context()); err != nil || string(b) != "a result" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := c.Put(t.Context(), blob(1<<20)); err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	door := s.doors[0]
	s.mu.Unlock()
	door.mu.Lock()
	defer door.mu.Unlock()
	if n := len(door.open); n > 16 {
		t.Errorf("%d connections of one address are half open", n)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	s := open(t, func(c *ServerConfig) {
		c.Limits.Connections, c.Limits.ConnectionsPerKey = 3, 2
	})
	first := s.dial(t, "miner")
	dialled, _ := s.connect(t, first)
	s.connect(t, s.dial(t, "miner"))
	s.connect(t, s.dial(t, "miner")) // takes the first's place
	if _, err := dialled.Recv(t.Context()); !errors.Is(err, transport.ErrClosed) {
		t.Error(err)
	}
	stranger, other := s.dial(t, "stranger"), s.dial(t, "other")
	for _, c := range []*Client{stranger, other} { // one takes the other's place
		if _, err := c.Manifest(t.Context()); err != nil {
			t.Error(err)
		}
	}
	s.connect(t, other)
	if _, err := stranger.Connect(t.Context()); err == nil || errors.Is(err, transport.ErrDenied) {
		t.Errorf("one more participant than there is room for: %v", err)
	}
}

func TestMemoryOfUploadsIsBounded(t *testing.T) {
	const most = 8 << 20
	s := open(t, func(c *ServerConfig) { c.Limits.Blob, c.Limits.MemoryPerKey, c.Limits.Memory = 4<<20, most, most })
	c := s.dial(t, "miner")
	s.connect(t, c)
	begin := func(b message.Blob) {
		stream, err := c.conn.NewStream(t.Context(), &service.Streams[1], method("Put"))
		if err != nil {
			t.Fatal(err)
		}
		stream.SendMsg(&message.Piece{Kind: &message.Piece_Upload{Upload: &message.Upload{Blob: b.Ref()}}})
		stream.SendMsg(pack(b.Bytes()[:pieceSize]))
		stream.CloseSend()
		stream.RecvMsg(new(message.Holding)) // an error: bytes are missing
	}
	for i := range 20 {
		begin(blob(4<<20 - i))
		s.members.mu.Lock()
		if s.members.memory > most {
			t.Errorf("%d bytes are held", s.members.memory)
		}
		s.members.mu.Unlock()
	}
	if _, err := c.Put(t.Context(), blob(4<<20)); err != nil {
		t.Errorf("uploads that nobody goes on with were in the way: %v", err)
	}
	if _, err := c.Put(t.Context(), blob(4<<20+1)); err == nil {
		t.Error("a blob that is too large was stored")
	}
}

// TestGetOfAnotherSizeTakesNoMemory asks for a tiny blob as if it were the largest that there may be, while an upload that
// broke off waits to be gone on with.
func TestGetOfAnotherSizeTakesNoMemory(t *testing.T) {
	const most = 8 << 20
	s := open(t, func(c *ServerConfig) {
		c.Limits.Blob, c.Limits.MemoryPerKey, c.Limits.Memory = most-overhead, most, most
	})
	honest, liar := s.dial(t, "miner"), s.dial(t, "liar")
	s.connect(t, honest)
	s.connect(t, liar)
	half, tiny := blob(1<<20), blob(1)
	stream, err := honest.conn.NewStream(t.Context(), &service.Streams[1], method("Put"))
	if err != nil {
		t.Fatal(err)
	}
	stream.SendMsg(&message.Piece{Kind: &message.Piece_Upload{Upload: &message.Upload{Blob: half.Ref()}}})
	stream.SendMsg(pack(half.Bytes()[:1000]))
	stream.CloseSend()
	stream.RecvMsg(new(message.Holding)) // an error: bytes are missing
	if _, err := liar.Put(t.Context(), tiny); err != nil {
		t.Fatal(err)
	}
	if _, err := liar.Get(t.Context(), tiny.Hash(), most-overhead); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	if h, err := honest.holding(t.Context(), half.Hash()); err != nil || h.GetHeld() != 1000 {
		t.Errorf("the other's upload is gone: %v, %v", h, err)
	}
}

// TestCompressedMessageIsRefused sends a small message that would be a large one.
func TestCompressedMessageIsRefused(t *testing.T) {
	s := open(t, nil)
	config, err := clientTLS(key("miner"), s.address)
	if err != nil {
		t.Fatal(err)
	}
	h2 := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(ctx context.Context, network, host string) (net.Conn, error) {
		return (&tls.Dialer{Config: config}).DialContext(ctx, network, host)
	}}
	defer h2.CloseIdleConnections()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(make([]byte, 64<<20))
	z.Close()
	for _, encoding := range []string{"gzip", "identity", ""} {
		body := binary.BigEndian.AppendUint32([]byte{1}, uint32(bomb.Len()))
		request, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+s.address.Host+method("Terms"), bytes.NewReader(append(body, bomb.Bytes()...)))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("content-type", "application/grpc")
		request.Header.Set("te", "trailers")
		if encoding != "" {
			request.Header.Set("grpc-encoding", encoding)
		}
		answer, err := h2.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		code := answer.Trailer.Get("grpc-status") + answer.Header.Get("grpc-status")
		if code == "" || code == "0" {
			t.Errorf("encoding %q: status %q", encoding, code)
		}
	}
}

func TestStrangerMakesFewCallsAtOnce(t *testing.T) {
	s := open(t, nil)
	c := s.dial(t, "stranger")
	ctx, cancel := context.WithCancel(t.Context())
	for range maxStrangers { // calls that never say what they ask
		if _, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, method("Terms")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Manifest(t.Context()); err == nil {
		t.Error("one more call was answered")
	}
	if _, err := s.dial(t, "other").Manifest(t.Context()); err != nil {
		t.Errorf("another key: %v", err)
	}
	cancel()
	for err := errors.New("not yet"); err != nil && t.Context().Err() == nil; {
		_, err = c.Manifest(t.Context())
	}
}

func TestWrongBlobFromTheStoreIsNoticed(t *testing.T) {
	lying := &lyingStore{store.NewMemory(1 << 20)}
	s := open(t, func(c *ServerConfig) { c.Blobs = lying })
	c := s.dial(t, "miner")
	s.connect(t, c)
	b := blob(1000)
	if _, err := c.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), b.Hash(), 1000); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}

// lyingStore gives other bytes than those that were asked for.
type lyingStore struct{ *store.Memory }

func (s *lyingStore) Get(_ context.Context, _ store.Hash, size uint64) ([]byte, error) {
	return make([]byte, size), nil
}
