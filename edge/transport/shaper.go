package transport

import (
	"context"
	"sync"
	"time"
)

// Shaper is a participant's link in real time. All its connections and blob transfers share the two lanes, and a cut
// stops them all. All methods may be called by many goroutines; a nil Shaper is an unlimited link that is never cut.
type Shaper struct {
	link Link
	gate gate

	mu       sync.Mutex
	start    time.Time // zero of the lanes' clock
	up, down Lane
}

// NewShaper returns an idle link.
func NewShaper(l Link) *Shaper {
	return &Shaper{link: l, start: time.Now(), up: Lane{Link: l}, down: Lane{Link: l}}
}

// Cut parts the participant from the network: nothing more arrives, in either direction, until Heal. What was sent
// meanwhile arrives then, in order, as TCP has it.
func (s *Shaper) Cut() { s.gate.set(true) }

// Heal ends a Cut.
func (s *Shaper) Heal() { s.gate.set(false) }

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
		if err := s.gate.wait(ctx); err != nil {
			return err
		}
		n := min(size, piece)
		size -= n
		var left time.Time
		left, arrival = s.reserve(up, n)
		if err := until(ctx, before); err != nil {
			return err
		}
		before = left
	}
	if err := until(ctx, arrival); err != nil {
		return err
	}
	return s.gate.wait(ctx)
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

// gate is open until it is shut. The zero gate is open.
type gate struct {
	mu      sync.Mutex
	shut    bool
	changed chan struct{} // closed at the next change; nil while nobody asked
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != shut && g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
	g.shut = shut
}

// state returns whether the gate is shut, and a channel that is closed when that changes.
func (g *gate) state() (shut bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.shut, g.changed
}

// wait returns when the gate is open.
func (g *gate) wait(ctx context.Context) error {
	for {
		shut, changed := g.state()
		if !shut {
			return ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
