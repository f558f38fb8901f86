package remote

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/protocol/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// key derives a key from a name.
func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(name string) ed25519.PublicKey { return key(name).Public().(ed25519.PublicKey) }

// site is a server on loopback with a store in memory.
type site struct {
	*Server
	address Address
	store   *store.Memory
}

// open starts a server, which ends with the test.
func open(t *testing.T, change func(*ServerConfig)) *site {
	t.Helper()
	s := &site{store: store.NewMemory(1 << 30)}
	c := ServerConfig{
		Key: key("orchestrator"), Manifest: message.Encode(&message.Manifest{Run: "a run"}), Blobs: s.store,
		Status: func() ([]byte, error) { return []byte(`{"phase":"Waiting"}`), nil },
		Log:    slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&c)
	}
	var err error
	if s.Server, err = NewServer(c); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = Address{Key: public("orchestrator"), Host: l.Addr().String()}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s
}

// dial returns a client that ends before the server does.
func (s *site) dial(t *testing.T, name string) *Client {
	t.Helper()
	return dial(t, s.address, name)
}

func dial(t *testing.T, a Address, name string) *Client {
	t.Helper()
	c, err := Dial(a, key(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// connect opens a session and returns both ends.
func (s *site) connect(t *testing.T, c *Client) (dialled, accepted transport.Conn) {
	t.Helper()
	dialled, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if accepted, err = s.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled, accepted
}

// blob returns a blob that nothing can compress.
func blob(size int) message.Blob {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size)}).Read(b)
	return message.NewBlob(b)
}

func TestMessagesTravelBothWaysInOrder(t *testing.T) {
	s := open(t, nil)
	dialled, accepted := s.connect(t, s.dial(t, "miner"))
	if accepted.Remote() != string(public("miner")) || dialled.Remote() != string(public("orchestrator")) {
		t.Error("the ends do not know each other")
	}
	for _, ends := range [][2]transport.Conn{{dialled, accepted}, {accepted, dialled}} {
		go func() {
			for i := range 200 {
				if err := ends[0].Send(t.Context(), fmt.Append(nil, i)); err != nil {
					t.Error(err)
				}
			}
		}()
		for i := range 200 {
			b, err := ends[1].Recv(t.Context())
			if err != nil || string(b) != fmt.Sprint(i) {
				t.Fatalf("%q, %v instead of %d", b, err, i)
			}
		}
	}
}

func TestLastOrderArrivesBeforeTheClose(t *testing.T) {
	s := open(t, nil)
	dialled, accepted := s.connect(t, s.dial(t, "miner"))
	if err := accepted.Send(t.Context(), []byte("finished")); err != nil {
		t.Fatal(err)
	}
	accepted.Close()
	go s.Close()
	if b, err := dialled.Recv(t.Context()); string(b) != "finished" {
		t.Fatalf("%q, %v", b, err)
	}
	if _, err := dialled.Recv(t.Context()); !errors.Is(err, transport.ErrClosed) {
		t.Fatal(err)
	}
	if err := dialled.Send(t.Context(), nil); !errors.Is(err, transport.ErrClosed) {
		t.Fatal(err)
	}
}

func TestContextEndsEveryWait(t *testing.T) {
	s := open(t, nil)
	dialled, accepted := s.connect(t, s.dial(t, "miner"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{
		"receive": func() error { _, err := dialled.Recv(ctx); return err }(),
		"accept":  func() error { _, err := s.Accept(ctx); return err }(),
		"send": func() (err error) {
			for err == nil { // the sender has one message, the stream some more
				err = accepted.Send(ctx, make([]byte, 1<<20))
			}
			return err
		}(),
		"connect": func() error { _, err := s.dial(t, "other").Connect(ctx); return err }(),
		"put":     func() error { _, err := s.dial(t, "other").Put(ctx, blob(10)); return err }(),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestEverybodyMayAskWhatRunItIs(t *testing.T) {
	s := open(t, func(c *ServerConfig) { c.Admit = func(ed25519.PublicKey) error { return errors.New("no") } })
	c := s.dial(t, "stranger")
	m, err := c.Manifest(t.Context())
	if err != nil || m.GetRun() != "a run" {
		t.Errorf("%v, %v", m, err)
	}
	if b, err := c.Status(t.Context()); err != nil || string(b) != `{"phase":"Waiting"}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestBlobsTravelWhole(t *testing.T) {
	s := open(t, nil)
	c := s.dial(t, "miner")
	s.connect(t, c)
	for _, size := range []int{0, 1, pieceSize, 5<<20 + 1} {
		b := blob(size)
		for _, put := range []func(context.Context, message.Blob) (store.Hash, error){c.Put, c.PutDurable} {
			if h, err := put(t.Context(), b); err != nil || h != b.Hash() {
				t.Fatalf("%d bytes: %v", size, err)
			}
		}
		if got, err := c.Get(t.Context(), b.Hash(), uint64(size)); err != nil || !bytes.Equal(got, b.Bytes()) {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if ok, err := c.Has(t.Context(), b.Hash()); !ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
	}
	if ok, err := c.Has(t.Context(), store.Hash{1}); ok || err != nil {
		t.Errorf("a blob that is not there: %v, %v", ok, err)
	}
}

func TestErrorsOfTheStoreKeepTheirMeaning(t *testing.T) {
	s := open(t, func(c *ServerConfig) { c.Blobs = store.NewMemory(1000) })
	c := s.dial(t, "miner")
	s.connect(t, c)
	small := blob(100)
	if _, err := c.Put(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	_, missing := c.Get(t.Context(), store.Hash{1}, 5)
	_, corrupt := c.Get(t.Context(), small.Hash(), 99)
	_, full := c.Put(t.Context(), blob(1001))
	for want, err := range map[error]error{store.ErrMissing: missing, store.ErrCorrupt: corrupt, store.ErrFull: full} {
		if !errors.Is(err, want) {
			t.Errorf("%v instead of %v", err, want)
		}
	}
}

func TestWrongKeyIsNamed(t *testing.T) {
	s := open(t, nil)
	c := dial(t, Address{Key: public("somebody else"), Host: s.address.Host}, "miner")
	_, connect := c.Connect(t.Context())
	_, manifest := c.Manifest(t.Context())
	_, put := c.Put(t.Context(), blob(1))
	want := fmt.Sprintf("the orchestrator at %s has key %x, not %x: check the join string",
		s.address.Host, public("orchestrator"), public("somebody else"))
	for _, err := range []error{connect, manifest, put} {
		if !errors.Is(err, transport.ErrDenied) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}

func TestStrangerIsToldWhyAndKeptOut(t *testing.T) {
	s := open(t, func(c *ServerConfig) {
		c.Admit = func(k ed25519.PublicKey) error {
			if !k.Equal(public("miner")) {
				return errors.New("this run is closed: ask its operator")
			}
			return nil
		}
	})
	c := s.dial(t, "stranger")
	c.attempts = 2
	if _, err := c.Connect(t.Context()); !errors.Is(err, transport.ErrDenied) || !strings.Contains(err.Error(), "ask its operator") {
		t.Errorf("connect: %v", err)
	}
	b := blob(10)
	if _, err := s.store.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	_, get := c.Get(t.Context(), b.Hash(), 10)
	_, put := c.Put(t.Context(), b)
	_, has := c.Has(t.Context(), b.Hash())
	for _, err := range []error{get, put, has} {
		if err == nil || !strings.Contains(err.Error(), "open a session first") {
			t.Errorf("%v", err)
		}
	}
}

func TestTransferWaitsForAnOrchestratorThatIsDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	l.Close() // nobody answers there
	c := dial(t, Address{Key: public("orchestrator"), Host: host}, "miner")
	c.attempts, c.pause = 3, time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := c.Put(ctx, blob(10)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("given up: %v", err)
	}
}
