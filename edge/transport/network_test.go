package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

func TestMinersDialOneListener(t *testing.T) {
	n := NewNetwork(Link{})
	l, err := n.Listen()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Listen(); err == nil {
		t.Fatal("a second listener")
	}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			key := fmt.Sprint("miner ", i)
			c, err := n.Dial(ctx, key)
			if err != nil {
				t.Error(err)
				return
			}
			send(t, c, key)
			expect(t, c, "welcome "+key)
			c.Close()
		})
	}
	for range 10 {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c, c.Remote())
		send(t, c, "welcome "+c.Remote())
		_, err = c.Recv(ctx)
		expectErr(t, err, ErrClosed)
		c.Close()
	}
	wg.Wait()
	l.Close()
}

func TestListenerMayCloseAndReturn(t *testing.T) {
	n := NewNetwork(Link{})
	_, err := n.Dial(ctx, "m")
	expectErr(t, err, ErrRefused)
	l, _ := n.Listen()
	waiting, err := n.Dial(ctx, "m")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	l.Close()
	_, err = waiting.Recv(ctx)
	expectErr(t, err, ErrClosed)
	_, err = l.Accept(ctx)
	expectErr(t, err, ErrClosed)
	_, err = n.Dial(ctx, "m")
	expectErr(t, err, ErrRefused)
	if l, err = n.Listen(); err != nil {
		t.Fatal(err)
	}
	for range backlog {
		if _, err := n.Dial(ctx, "m"); err != nil {
			t.Fatal(err)
		}
	}
	_, err = n.Dial(ctx, "m")
	expectErr(t, err, ErrRefused)
	l.Close()
}

func TestDialTakesOneRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(Link{Delay: 50 * time.Millisecond})
		l, _ := n.Listen()
		start := time.Now()
		if _, err := n.Dial(ctx, "far"); err != nil || time.Since(start) != 100*time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		l.Close()
	})
}

// shelf is a store of one blob, for Shaped to wrap.
type shelf struct{ blob []byte }

var errNone = errors.New("none")

func (s *shelf) Put(_ context.Context, b message.Blob) (int, error) {
	s.blob = b.Bytes()
	return len(s.blob), nil
}

func (s *shelf) PutDurable(ctx context.Context, b message.Blob) (int, error) { return s.Put(ctx, b) }

func (s *shelf) Get(_ context.Context, h int, size uint64) ([]byte, error) {
	if h != len(s.blob) || uint64(h) != size {
		return nil, errNone
	}
	return s.blob, nil
}

func (s *shelf) Has(_ context.Context, h int) (bool, error) { return h == len(s.blob), nil }

func TestShapedStoreChargesTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := NewShaper(Link{Rate: 1 << 20, Delay: 50 * time.Millisecond})
		s, start := NewShaped[int](&shelf{}, link), time.Now()
		after := func(what string, err, want error, d time.Duration) {
			t.Helper()
			if got := time.Since(start); got != d || !errors.Is(err, want) {
				t.Fatalf("%s: %v after %v, want %v after %v", what, err, got, want, d)
			}
			start = time.Now()
		}
		h, err := s.Put(ctx, message.NewBlob(make([]byte, 4<<20)))
		after("put", err, nil, 4050*time.Millisecond)
		_, err = s.PutDurable(ctx, message.NewBlob(make([]byte, 4<<20)))
		after("put durable", err, nil, 4050*time.Millisecond)
		_, err = s.Get(ctx, h, 4<<20)
		after("get", err, nil, 4100*time.Millisecond)
		_, err = s.Get(ctx, 5, 5)
		after("get missing", err, errNone, 100*time.Millisecond)
		_, err = s.Has(ctx, h)
		after("has", err, nil, 100*time.Millisecond)

		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = s.Put(short, message.NewBlob(make([]byte, 2<<20)))
		after("put too slow", err, context.DeadlineExceeded, time.Second)
		if ok, _ := s.Has(ctx, 2<<20); ok {
			t.Fatal("it was stored all the same")
		}
	})
}

func TestMessagesFindTheirPlaceBetweenPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := NewShaper(Link{Rate: 1 << 20})
		a, b := Pipe(link, "", "")
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := NewShaped[int](&shelf{}, link).Put(ctx, message.NewBlob(make([]byte, 8<<20))); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		send(t, a, "heartbeat")
		expect(t, b, "heartbeat")
		if got := time.Since(start); got > time.Second {
			t.Errorf("the heartbeat waited %v for the blob", got)
		}
		wg.Wait()
	})
}

func TestUnlimitedShapedStoreTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, link := range []*Shaper{nil, NewShaper(Link{})} {
			s, start := NewShaped[int](&shelf{}, link), time.Now()
			h, err := s.Put(ctx, message.NewBlob(make([]byte, 100<<20)))
			if _, e := s.Get(ctx, h, 100<<20); err != nil || e != nil || time.Since(start) != 0 {
				t.Fatalf("%v %v after %v", err, e, time.Since(start))
			}
		}
	})
}
