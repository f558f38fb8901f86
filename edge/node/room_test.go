package node_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/store"
)

// told is a log that says when a line of that text comes.
type told struct {
	slog.Handler
	text string
	came chan struct{}
}

func (l told) Enabled(context.Context, slog.Level) bool { return true }

func (l told) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, l.text) {
		select {
		case l.came <- struct{}{}:
		default:
		}
	}
	return nil
}

// standsStill makes the site tell when the run begins to wait for room.
func (s *site) standsStill() <-chan struct{} {
	l := told{slog.DiscardHandler, "the run stands still", make(chan struct{}, 1)}
	s.log = slog.New(l)
	return l.came
}

func TestFullStoreHoldsTheRunUntilThereIsRoom(t *testing.T) {
	s := newSite(t, 2)
	dir, err := store.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.blobs = dir
	dir.Limit(300 << 10)
	waits := s.standsStill()
	h := s.open()
	s.start(4)
	ended := make(chan error)
	go func() { ended <- s.serve(h) }()
	select {
	case <-waits:
	case err := <-ended:
		t.Fatalf("it ended: %v", err)
	}
	v := h.View()
	if n := len(v.Alerts); v.Finished || !strings.Contains(v.Reason, "no room") || n == 0 || !strings.Contains(v.Alerts[n-1].Text, "store full") {
		t.Errorf("the view says %q, %v", v.Reason, v.Alerts)
	}
	dir.Limit(1 << 30)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	s.leave()
	s.check(h)
	if v := h.View(); v.Counters.Kicked != 0 || v.Counters.ShardsLost != 0 || strings.Contains(v.Reason, "no room") {
		t.Errorf("%d kicked, %d shards lost: %s", v.Counters.Kicked, v.Counters.ShardsLost, v.Reason)
	}
}

func TestFullJournalHoldsTheRunAndLosesNothing(t *testing.T) {
	s := newSite(t, 2)
	n := 0
	s.journal.full = func() bool { n++; return n%20 < 3 }
	s.check(s.play(3))
}

func TestStopOfARunThatWaitsForRoomEndsItAndLosesNothing(t *testing.T) {
	s := newSite(t, 2)
	waits := s.standsStill()
	n := 0
	s.journal.full = func() bool { n++; return n > 40 }
	h := s.open()
	s.start(3)
	ended := make(chan error)
	go func() { ended <- s.serve(h) }()
	<-waits
	h.Stop(true)
	if err := <-ended; !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v", err)
	}
	s.leave()
	if v, err := node.Verify(s.journal); err != nil || v.Events == 0 {
		t.Fatalf("%d events: %v", v.Events, err)
	}
	s.journal.full = nil
	s.check(s.play(3))
}
