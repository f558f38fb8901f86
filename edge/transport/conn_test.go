package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

func send(t *testing.T, c Conn, s string) {
	t.Helper()
	if err := c.Send(ctx, []byte(s)); err != nil {
		t.Fatalf("send %q: %v", s, err)
	}
}

func expect(t *testing.T, c Conn, want string) {
	t.Helper()
	if b, err := c.Recv(ctx); err != nil || string(b) != want {
		t.Fatalf("received %q %v, want %q", b, err, want)
	}
}

// expectAt is expect at a moment after start; the clock is virtual, so it is exact.
func expectAt(t *testing.T, c Conn, want string, start time.Time, after time.Duration) {
	t.Helper()
	expect(t, c, want)
	if got := time.Since(start); got != after {
		t.Fatalf("%q arrived after %v, want %v", want, got, after)
	}
}

func expectErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%v, want %v", err, want)
	}
}

func TestMessagesArriveInOrderBothWays(t *testing.T) {
	a, b := Pipe(nil, "b", "a")
	var wg sync.WaitGroup
	for _, ends := range [][2]*End{{a, b}, {b, a}} {
		wg.Go(func() {
			for i := range 1000 {
				send(t, ends[0], fmt.Sprint(i))
			}
		})
		wg.Go(func() {
			for i := range 1000 {
				expect(t, ends[1], fmt.Sprint(i))
			}
		})
	}
	wg.Wait()
	if a.Remote() != "b" || b.Remote() != "a" {
		t.Errorf("remotes %q %q", a.Remote(), b.Remote())
	}
}

func TestCloseDeliversWhatWasSentThenErrClosed(t *testing.T) {
	a, b := Pipe(nil, "", "")
	send(t, a, "last words")
	send(t, b, "lost")
	a.Close()
	a.Close()
	expect(t, b, "last words")
	_, err := b.Recv(ctx)
	expectErr(t, err, ErrClosed)
	expectErr(t, b.Send(ctx, nil), ErrClosed)
	_, err = a.Recv(ctx)
	expectErr(t, err, ErrClosed)
	expectErr(t, a.Send(ctx, nil), ErrClosed)
}

func TestCloseAndContextWakeThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wake := range []string{"own close", "peer close", "context"} {
			a, b := Pipe(nil, "", "")
			for range queueMessages {
				send(t, a, "x")
			}
			cctx, cancel := context.WithCancel(t.Context())
			errs := make(chan error, 2)
			go func() { errs <- a.Send(cctx, []byte("one too many")) }()
			go func() { _, err := a.Recv(cctx); errs <- err }()
			synctest.Wait()
			want := ErrClosed
			switch wake {
			case "own close":
				a.Close()
			case "peer close":
				b.Close()
			case "context":
				cancel()
				want = context.Canceled
			}
			expectErr(t, <-errs, want)
			expectErr(t, <-errs, want)
			cancel()
		}
	})
}

func TestFullQueueHoldsTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(nil, "", "")
		sent := 0
		go func() {
			for a.Send(ctx, nil) == nil {
				sent++
			}
		}()
		synctest.Wait()
		if sent != queueMessages {
			t.Fatalf("%d messages were queued", sent)
		}
		expect(t, b, "")
		synctest.Wait()
		if sent != queueMessages+1 {
			t.Fatalf("%d messages were queued after one was taken", sent)
		}
		a.Close()
	})
}

func TestOversizedMessageIsRefused(t *testing.T) {
	a, _ := Pipe(nil, "", "")
	if err := a.Send(ctx, make([]byte, MaxMessage+1)); err == nil {
		t.Fatal("sent")
	}
}

func TestShapedMessagesTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := NewShaper(Link{Rate: 1000, Delay: 50 * time.Millisecond})
		a, b := Pipe(link, "", "")
		start := time.Now()
		big := string(bytes.Repeat([]byte("x"), 1000))
		send(t, a, big)
		send(t, a, "0123456789")
		send(t, b, big) // the other direction has its own lane
		a2, b2 := Pipe(link, "", "")
		send(t, a2, "0123456789") // another connection of the same owner waits behind
		expectAt(t, b, big, start, 1050*time.Millisecond)
		expectAt(t, a, big, start, 1050*time.Millisecond)
		expectAt(t, b, "0123456789", start, 1060*time.Millisecond)
		expectAt(t, b2, "0123456789", start, 1070*time.Millisecond)
	})
}

func TestCloseTravelsBehindTheMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(NewShaper(Link{Rate: 1000, Delay: 50 * time.Millisecond}), "", "")
		start := time.Now()
		send(t, a, "0123456789")
		a.Close()
		expectAt(t, b, "0123456789", start, 60*time.Millisecond)
		c, d := Pipe(NewShaper(Link{Delay: time.Second}), "", "")
		start = time.Now()
		c.Close()
		_, err := d.Recv(ctx)
		expectErr(t, err, ErrClosed)
		if got := time.Since(start); got != time.Second {
			t.Fatalf("the close arrived after %v", got)
		}
	})
}
