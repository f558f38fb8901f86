package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/protocol/message"
)

// wire passes connections on to a server and breaks each of the first ones after so many bytes one way.
type wire struct {
	net.Listener
	up, down atomic.Int64 // bytes passed
	breaks   chan breaking
	tasks    sync.WaitGroup
}

// breaking is what happens to one connection.
type breaking struct {
	up, down int64 // after so many bytes, 0 for never
	silent   bool  // nothing more passes; else both ends see the connection fail
}

func lay(t *testing.T, to string, breaks ...breaking) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l, breaks: make(chan breaking, len(breaks))}
	for _, b := range breaks {
		w.breaks <- b
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.tasks.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			context.AfterFunc(ctx, func() { near.Close(); far.Close() })
			var b breaking
			select {
			case b = <-w.breaks:
			default:
			}
			w.tasks.Go(func() { pass(far, near, b.up, b.silent, &w.up) })
			w.tasks.Go(func() { pass(near, far, b.down, b.silent, &w.down) })
		}
	})
	t.Cleanup(func() { l.Close(); cancel(); w.tasks.Wait() })
	return w
}

func pass(to, from net.Conn, most int64, silent bool, count *atomic.Int64) {
	var r io.Reader = from
	if most > 0 {
		r = io.LimitReader(from, most)
	}
	n, err := io.Copy(to, r)
	count.Add(n)
	if silent && err == nil && n == most {
		io.Copy(io.Discard, from)
	}
	to.Close()
	from.Close()
}

func TestBrokenUploadGoesOnWhereItWas(t *testing.T) {
	const size = 6 << 20
	for _, b := range []breaking{{up: 4 << 20}, {up: 4 << 20, silent: true}} {
		s := open(t, func(c *ServerConfig) { c.Limits.Stall = 300 * time.Millisecond })
		w := lay(t, s.address.Host, b)
		c := dial(t, Address{Key: s.address.Key, Host: w.Addr().String()}, "miner")
		c.stall = 300 * time.Millisecond
		s.connect(t, c)
		if b.silent {
			// A dead wire takes the pings' patience to notice. A second client of the key stands for the new connection.
			c2 := dial(t, s.address, "miner")
			s.connect(t, c2)
			c2.stall = time.Second
			broken(t, c, blob(size))
			c = c2
		}
		if _, err := c.Put(t.Context(), blob(size)); err != nil {
			t.Fatal(err)
		}
		got, err := s.store.Get(t.Context(), blob(size).Hash(), size)
		if err != nil || !bytes.Equal(got, blob(size).Bytes()) {
			t.Fatal(err)
		}
		if !b.silent && w.up.Load() > size+size/2 {
			t.Errorf("%d bytes went up for a blob of %d", w.up.Load(), size)
		}
	}
}

// broken puts a blob over a wire that dies.
func broken(t *testing.T, c *Client, b message.Blob) {
	c.attempts = 1
	if _, err := c.Put(t.Context(), b); err == nil {
		t.Error("put over a dead wire")
	}
}

func TestBrokenDownloadGoesOnWhereItWas(t *testing.T) {
	const size = 6 << 20
	s := open(t, nil)
	w := lay(t, s.address.Host, breaking{down: 2 << 20}, breaking{down: 2 << 20})
	c := dial(t, Address{Key: s.address.Key, Host: w.Addr().String()}, "miner")
	s.connect(t, c)
	b := blob(size)
	if _, err := s.store.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	got, err := c.Get(t.Context(), b.Hash(), size)
	if err != nil || !bytes.Equal(got, b.Bytes()) {
		t.Fatal(err)
	}
	c.Close()
	s.Close()
	w.Close()
	if n := w.down.Load(); n > size+size/2 {
		t.Errorf("%d bytes came down for a blob of %d", n, size)
	}
}

func TestTransferWithoutProgressIsGivenUp(t *testing.T) {
	s := open(t, nil)
	w := lay(t, s.address.Host, breaking{down: 1 << 20, up: 1 << 20, silent: true})
	c := dial(t, Address{Key: s.address.Key, Host: w.Addr().String()}, "miner")
	c.stall, c.attempts = 200*time.Millisecond, 3
	s.connect(t, c)
	b := blob(4 << 20)
	if _, err := s.store.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"get": func() error { _, err := c.Get(t.Context(), b.Hash(), 4<<20); return err }(),
		"put": func() error { _, err := c.Put(t.Context(), blob(5<<20)); return err }(),
	} {
		if err == nil || errors.Is(err, store.ErrMissing) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestLostConnectionEndsTheSession(t *testing.T) {
	s := open(t, nil)
	w := lay(t, s.address.Host, breaking{up: 1 << 20})
	c := dial(t, Address{Key: s.address.Key, Host: w.Addr().String()}, "miner")
	dialled, accepted := s.connect(t, c)
	for err := error(nil); err == nil; {
		err = dialled.Send(t.Context(), make([]byte, 1<<20))
	}
	for _, end := range []transport.Conn{dialled, accepted} {
		var err error
		for err == nil {
			_, err = end.Recv(t.Context())
		}
		if !errors.Is(err, transport.ErrClosed) {
			t.Error(err)
		}
	}
	s.connect(t, c) // and the client is as good as new
}

func TestWhatIsNotTheBlobIsNotKept(t *testing.T) {
	s := open(t, nil)
	c := s.dial(t, "miner")
	s.connect(t, c)
	good := blob(1 << 20)
	bad := bytes.Clone(good.Bytes())
	bad[77] ^= 1
	try := func(up *message.Upload, b []byte) error {
		return c.persist(t.Context(), "put", func(a *attempt) error { return c.send(a, up, b) })
	}
	if err := try(&message.Upload{Blob: good.Ref()}, bad); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a changed bit: %v", err)
	}
	for what, up := range map[string]*message.Upload{
		"a path for a name":       {Blob: &message.BlobRef{Hash: []byte("../../../../etc/passwd"), Size: 1 << 20}},
		"no name":                 {},
		"more than the blob has":  {Blob: &message.BlobRef{Hash: good.Ref().Hash, Size: 1<<20 - 1}},
		"more than is accepted":   {Blob: &message.BlobRef{Hash: good.Ref().Hash, Size: 1<<30 + 1}},
		"a size that wraps round": {Blob: &message.BlobRef{Hash: good.Ref().Hash, Size: 1<<64 - 1}},
	} {
		if err := try(up, good.Bytes()); err == nil {
			t.Errorf("%s: stored", what)
		}
	}
	if n := s.store.Usage(); n != 0 {
		t.Errorf("%d bytes are stored", n)
	}
	s.members.mu.Lock()
	defer s.members.mu.Unlock()
	if s.members.memory != 0 {
		t.Errorf("%d bytes are still held", s.members.memory)
	}
}

func TestPiecesThatAreNoneAreRefused(t *testing.T) {
	s := open(t, nil)
	c := s.dial(t, "miner")
	s.connect(t, c)
	up := &message.Piece{Kind: &message.Piece_Upload{Upload: &message.Upload{Blob: blob(10).Ref()}}}
	data := &message.Piece{Kind: &message.Piece_Data{Data: blob(10).Bytes()}}
	for what, pieces := range map[string][]any{
		"nothing":           {},
		"data first":        {data, up},
		"named twice":       {up, up, data},
		"too short":         {up},
		"not a piece":       {up, []byte("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f")},
		"an unknown field":  {up, []byte("\x1a\x01a")},
		"an empty message":  {up, []byte{}},
		"an unended varint": {up, []byte("\x0a\xff\xff")},
	} {
		stream, err := c.conn.NewStream(t.Context(), &service.Streams[1], method("Put"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pieces {
			stream.SendMsg(p)
		}
		stream.CloseSend()
		if err := stream.RecvMsg(new(message.Holding)); err == nil || status.Code(err) == codes.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestOversizedMessageIsRefusedAtBothEnds(t *testing.T) {
	s := open(t, nil)
	c := s.dial(t, "miner")
	dialled, accepted := s.connect(t, c)
	if err := dialled.Send(t.Context(), make([]byte, maxMessage+1)); err == nil {
		t.Error("sent")
	}
	stream, err := c.conn.NewStream(t.Context(), &service.Streams[0], method("Session"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stream.SendMsg(make([]byte, maxMessage+1))
	if _, err := second.Recv(t.Context()); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("an oversized message gave %v", err)
	}
	go dialled.Send(t.Context(), make([]byte, maxMessage))
	if b, err := accepted.Recv(t.Context()); err != nil || len(b) != maxMessage {
		t.Errorf("the largest message: %d bytes, %v", len(b), err)
	}
}
