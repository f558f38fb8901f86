package node_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/protocol/message"
)

// client is a participant driven by hand.
type client struct {
	t    *testing.T
	conn transport.Conn
}

func (s *site) dial(i int) *client {
	s.t.Helper()
	conn, err := s.links.Dial(s.t.Context(), public(i))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return &client{s.t, conn}
}

func (c *client) send(e *message.Envelope) {
	c.t.Helper()
	if err := c.conn.Send(c.t.Context(), message.Encode(e)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) register(session byte) {
	c.t.Helper()
	c.send(&message.Envelope{Kind: &message.Envelope_Register{Register: &message.Register{
		Session: bytes.Repeat([]byte{session}, 16), Numerics: string(kernel.F32)}}})
}

// next returns the next order but cancellations.
func (c *client) next() *message.Order {
	c.t.Helper()
	for {
		b, err := c.conn.Recv(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		var o message.Order
		if err := message.Decode(b, &o); err != nil {
			c.t.Fatal(err)
		}
		if o.GetCancel() == nil {
			return &o
		}
	}
}

// closed waits for the end of the connection.
func (c *client) closed() {
	c.t.Helper()
	for {
		if _, err := c.conn.Recv(c.t.Context()); err != nil {
			if !errors.Is(err, transport.ErrClosed) {
				c.t.Error(err)
			}
			return
		}
	}
}

// hubServing runs a hub until the test ends.
func hubServing(t *testing.T) (*site, *node.Hub) { return hubOf(t, func(*site) {}) }

// hubOf is hubServing of a site that was prepared.
func hubOf(t *testing.T, prepare func(*site)) (*site, *node.Hub) {
	s := newSite(t, 1)
	prepare(s)
	h := s.open()
	ended := make(chan error)
	l, err := s.links.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- h.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		l.Close()
		if _, err := node.Verify(s.journal); err != nil {
			t.Error(err)
		}
	})
	return s, h
}

// results counts the journalled results.
func (s *site) results() int {
	n := 0
	err := s.journal.Read(1, func(r journal.Record) error {
		var e message.Event
		if err := message.Decode(r.Event, &e); err != nil {
			return err
		}
		if e.GetResult() != nil {
			n++
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
	return n
}

func TestHubDisconnectsWhoBreaksTheProtocol(t *testing.T) {
	receipt := func(change func(*message.Receipt)) *message.Envelope {
		r := &message.Receipt{Task: &message.TaskID{Kind: message.TaskKind_FORWARD}, Session: bytes.Repeat([]byte{1}, 16)}
		change(r)
		return &message.Envelope{Kind: &message.Envelope_Result{Result: message.Sign(key(0), r)}}
	}
	nowhere := message.NewBlob([]byte("nowhere")).Ref()
	for name, e := range map[string]*message.Envelope{
		"an output that is not stored": receipt(func(r *message.Receipt) { r.Outputs = []*message.BlobRef{nowhere} }),
		"an output of another size": receipt(func(r *message.Receipt) {
			r.Outputs = []*message.BlobRef{{Hash: message.HashBytes([]byte("here")), Size: 5}}
		}),
		"an output without a hash": receipt(func(r *message.Receipt) { r.Outputs = []*message.BlobRef{{Size: 5}} }),
		"a receipt without a task": receipt(func(r *message.Receipt) { r.Task = nil }),
		"another's signature": {Kind: &message.Envelope_Result{Result: message.Sign(key(1),
			&message.Receipt{Task: &message.TaskID{}})}},
		"a message of no kind": {},
		"a second registration": {Kind: &message.Envelope_Register{Register: &message.Register{
			Session: bytes.Repeat([]byte{2}, 16), Numerics: string(kernel.F32)}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := hubServing(t)
			if _, err := s.blobs.Put(t.Context(), message.NewBlob([]byte("here"))); err != nil {
				t.Fatal(err)
			}
			c := s.dial(0)
			c.register(1)
			if c.next().GetWelcome() == nil {
				t.Fatal("no welcome")
			}
			c.send(e)
			c.closed()
			if n := s.results(); n != 0 {
				t.Errorf("%d results were journalled", n)
			}
		})
	}
}

// A registered participant that floods the hub has little of it journalled, and others do not wait for it.
func TestHubPacesAFlood(t *testing.T) {
	s, _ := hubServing(t)
	c, other := s.dial(0), s.dial(1)
	c.register(1)
	r := &message.Receipt{Task: &message.TaskID{Kind: message.TaskKind_STEP}, Session: bytes.Repeat([]byte{1}, 16), Note: strings.Repeat("x", 200<<10)}
	flood := message.Encode(&message.Envelope{Kind: &message.Envelope_Result{Result: message.Sign(key(0), r)}})
	beat := message.Encode(&message.Envelope{Kind: &message.Envelope_Heartbeat{Heartbeat: &message.Heartbeat{}}})
	go func() {
		for c.conn.Send(t.Context(), flood) == nil && c.conn.Send(t.Context(), beat) == nil {
		}
	}()
	began := time.Now()
	other.register(2)
	if other.next().GetWelcome() == nil {
		t.Fatal("no welcome")
	}
	c.conn.Close()
	seconds := time.Since(began).Seconds()
	if n := float64(s.results()); n > (4096+2000*seconds)/200+2 {
		t.Errorf("%v results in %v s were journalled", n, seconds)
	}
}

func TestHubWantsARegistrationFirst(t *testing.T) {
	s, _ := hubServing(t)
	c := s.dial(0)
	c.send(&message.Envelope{Kind: &message.Envelope_Heartbeat{Heartbeat: &message.Heartbeat{}}})
	c.closed()
}

func TestHubRefusesOtherNumerics(t *testing.T) {
	s, _ := hubServing(t)
	m := node.NewMiner(node.MinerConfig{
		Dial:  func(ctx context.Context) (transport.Conn, error) { return s.links.Dial(ctx, public(0)) },
		Blobs: s.blobs, Gate: s.gate, Numerics: "abacus", Log: quiet,
		Start: func([]byte) (node.Worker, error) { return nil, nil },
	})
	if err := m.Run(t.Context()); !errors.Is(err, node.ErrRefused) || !strings.Contains(err.Error(), "abacus") {
		t.Errorf("got %v", err)
	}
}

func TestNewConnectionOfAKeyReplacesTheOld(t *testing.T) {
	s, h := hubServing(t)
	old := s.dial(0)
	old.register(1)
	old.next()
	again := s.dial(0)
	again.register(1)
	old.closed()
	if again.next().GetWelcome() == nil {
		t.Error("no welcome")
	}
	if v := h.View(); len(v.Miners) != 1 || v.Miners[0].State == "absent" {
		t.Errorf("miners %+v", v.Miners)
	}
}

func TestSecondProcessWithAKeyEndsTheFirst(t *testing.T) {
	s, _ := hubServing(t)
	first := s.dial(0)
	first.register(1)
	if o := first.next(); o.GetWelcome() == nil {
		t.Fatalf("%v", o)
	}
	second := s.dial(0)
	second.register(2)
	o := first.next()
	for o.GetTask() != nil {
		o = first.next()
	}
	if r := o.GetRefusal(); r.GetTask() != nil || !strings.Contains(r.GetReason(), "same key") {
		t.Errorf("%v", o)
	}
	first.closed()
	if o := second.next(); o.GetWelcome() == nil {
		t.Errorf("%v", o)
	}
}

func TestHubNeverLetsAnOrderLeaveBeforeItsEventIsDurable(t *testing.T) {
	s := newSite(t, 1)
	h := s.open()
	reached, release := make(chan struct{}), make(chan struct{})
	s.journal.die = func() bool {
		close(reached)
		<-release
		return true
	}
	l, err := s.links.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error)
	go func() { ended <- h.Serve(context.Background(), l) }()
	c := s.dial(0)
	c.register(1)
	<-reached
	close(release)
	if err := <-ended; !errors.Is(err, errDied) {
		t.Error(err)
	}
	if b, err := c.conn.Recv(t.Context()); err == nil {
		t.Errorf("%d bytes left", len(b))
	}
}

func TestVerifyNamesWhatIsWrong(t *testing.T) {
	s := newSite(t, 1)
	s.play(3)
	for name, c := range map[string]struct {
		change func(r *journal.Record)
		state  bool
		want   string
	}{
		"another event": {change: func(r *journal.Record) {
			if r.Seq == 5 {
				r.Event = message.Encode(&message.Event{Kind: &message.Event_Stop{Stop: &message.Stop{AtOnce: true}}})
			}
		}, want: "event 5: "},
		"another time": {change: func(r *journal.Record) {
			if r.Seq == 7 {
				r.Now += time.Second
			}
		}, want: "event 7: "},
		"another link": {change: func(r *journal.Record) {
			if r.Seq == 9 {
				r.Chain[3] ^= 1
			}
		}, want: "event 9: "},
		"no event":         {change: func(r *journal.Record) { r.Event = []byte{0xff} }, want: "event 1: "},
		"another snapshot": {change: func(*journal.Record) {}, state: true, want: "snapshot after event"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := s.rewritten(t, c.change, c.state)
			_, err := node.Verify(changed)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// rewritten is a copy of the journal in which something is different but all checksums are right.
func (s *site) rewritten(t *testing.T, change func(*journal.Record), state bool) *journal.Memory {
	t.Helper()
	j := journal.NewMemory()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	genesis, err := s.journal.Genesis()
	check(err)
	check(j.WriteGenesis(genesis))
	check(s.journal.Read(1, func(r journal.Record) error {
		change(&r)
		return j.Append([]journal.Record{r})
	}))
	check(s.journal.Snapshots(func(snap journal.Snapshot) error {
		if state {
			snap.State = nil
			snap.StateHash[0] ^= 1
		}
		return j.WriteSnapshot(snap)
	}))
	return j
}

func TestHubDisconnectsWhoTakesNoOrders(t *testing.T) {
	s, h := hubServing(t)
	c := s.dial(0)
	c.register(1)
	r := &message.Receipt{Task: &message.TaskID{Kind: message.TaskKind_STEP}, Session: bytes.Repeat([]byte{1}, 16), Previous: []byte("no log")}
	unwelcome := message.Encode(&message.Envelope{Kind: &message.Envelope_Result{Result: message.Sign(key(0), r)}})
	var err error
	n := 0
	for ; err == nil && n < 10_000; n++ {
		err = c.conn.Send(t.Context(), unwelcome)
	}
	if !errors.Is(err, transport.ErrClosed) {
		t.Errorf("after %d messages: %v", n, err)
	}
	if len(h.View().Miners) != 1 {
		t.Error("it is forgotten")
	}
}
