package transport

import (
	"context"
	"sync"
	"time"
)

// Shaper is a participant's link in real time. All its connections and blob transfers share the two lanes. All methods
// may be called by many goroutines; a nil Shaper is an unlimited link.
type Shaper struct {
	link Link

	mu       sync.Mutex
	start    time.Time // zero of the lanes' clock
	up, down Lane
}

// NewShaper returns an idle link.
func NewShaper(l Link) *Shaper {
	return &Shaper{link: l, start: time.Now(), up: Lane{Link: l}, down: Lane{Link: l}}
}

// reserve queues size bytes now; it returns when the last has left, and when it arrives.
func (s *Shaper) reserve(up bool, size int) (left, arrival time.Time) {
	now := time.Now()
	if s == nil || s.link == (Link{}) {
		return now, now
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lane := &s.down
	if up {
		lane = &s.up
	}
	d := lane.Deliver(now.Sub(s.start), size)
	return s.start.Add(lane.Busy()), s.start.Add(d)
}

// transfer waits as long as size bytes need. They are queued piece by piece, two ahead, so that messages and other
// transfers find their place in between instead of waiting for a whole blob.
func (s *Shaper) transfer(ctx context.Context, up bool, size int) error {
	if s == nil {
		return ctx.Err()
	}
	piece := max(64<<10, int(min(s.link.Rate/200, 64<<20)))
	if s.link.Rate == 0 {
		piece = max(size, 1)
	}
	var before, arrival time.Time
	for first := true; first || size > 0; first = false {
		n := min(size, piece)
		size -= n
		var left time.Time
		left, arrival = s.reserve(up, n)
		if err := until(ctx, before); err != nil {
			return err
		}
		before = left
	}
	return until(ctx, arrival)
}

// until waits for a moment in time.
func until(ctx context.Context, t time.Time) error {
	d := time.Until(t)
	if t.IsZero() || d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
