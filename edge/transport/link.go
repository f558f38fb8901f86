package transport

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Link describes one participant's connection to the network, the same in both directions. The zero Link is unlimited.
type Link struct {
	Rate  uint64        // bytes per second, 0: unlimited
	Delay time.Duration // one way
}

// units are the accepted suffixes of a rate, in bytes per second.
var units = []struct {
	suffix string
	bytes  float64
}{{"gbit", 1e9 / 8}, {"mbit", 1e6 / 8}, {"kbit", 1e3 / 8}}

// ParseLink reads RATE or RATE,DELAY: a rate is a number with kbit, mbit or gbit (per second), or "unlimited"; a delay
// is a Go duration, as in "80mbit,50ms".
func ParseLink(s string) (Link, error) {
	var l Link
	rate, delay, hasDelay := strings.Cut(s, ",")
	if rate = strings.TrimSpace(rate); rate != "unlimited" {
		var err error
		if l.Rate, err = parseRate(rate); err != nil {
			return Link{}, fmt.Errorf("link %q: %w", s, err)
		}
	}
	if hasDelay {
		d, err := time.ParseDuration(strings.TrimSpace(delay))
		if err != nil || d < 0 || d > time.Hour {
			return Link{}, fmt.Errorf("link %q: delay must be a duration from 0s to 1h, as in 50ms", s)
		}
		l.Delay = d
	}
	return l, nil
}

func parseRate(s string) (uint64, error) {
	for _, u := range units {
		number, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if bytes := math.Round(n * u.bytes); err == nil && bytes >= 1 && bytes <= 1e15 {
			return uint64(bytes), nil
		}
		break
	}
	return 0, fmt.Errorf(`rate must be a positive number with kbit, mbit or gbit, or "unlimited"`)
}

// String returns the link in the form that ParseLink reads.
func (l Link) String() string {
	s := "unlimited"
	if l.Rate > 0 {
		u := units[len(units)-1]
		for _, v := range units {
			if float64(l.Rate) >= v.bytes {
				u = v
				break
			}
		}
		s = strconv.FormatFloat(float64(l.Rate)/u.bytes, 'f', -1, 64) + u.suffix
	}
	if l.Delay > 0 || l.Rate > 0 {
		s += "," + l.Delay.String()
	}
	return s
}

// Occupies returns how long size bytes keep the link busy in one direction, rounded up to a nanosecond.
func (l Link) Occupies(size int) time.Duration {
	if l.Rate == 0 || size <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(size), uint64(time.Second))
	lo, carry := bits.Add64(lo, l.Rate-1, 0)
	if hi += carry; hi >= l.Rate {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, l.Rate)
	return time.Duration(min(q, math.MaxInt64))
}

// Lane is one direction of a link: a queue in which bytes follow each other at the link's rate. It knows no clock, so
// it serves a virtual one as well. The zero Lane is unlimited. Use by one goroutine at a time.
type Lane struct {
	Link Link
	busy time.Duration // when the last byte accepted so far has left
}

// Deliver queues size bytes at time now and returns when the last of them arrives at the far end. Arrivals never go
// backwards while now does not.
func (l *Lane) Deliver(now time.Duration, size int) (arrival time.Duration) {
	l.busy = add(max(now, l.busy), l.Link.Occupies(size))
	return add(l.busy, l.Link.Delay)
}

// Busy returns when the last byte accepted so far has left.
func (l *Lane) Busy() time.Duration { return l.busy }

// Reset forgets what was queued, as after the death of its owner at time now.
func (l *Lane) Reset(now time.Duration) { l.busy = now }

// add returns a+b, or the greatest duration when that overflows.
func add(a, b time.Duration) time.Duration {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Duplex is both directions of a link, each with a queue of its own.
type Duplex struct{ Up, Down Lane }

// NewDuplex returns an idle full-duplex link.
func NewDuplex(l Link) *Duplex { return &Duplex{Up: Lane{Link: l}, Down: Lane{Link: l}} }
