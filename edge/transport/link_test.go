package transport

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseLink(t *testing.T) {
	for s, want := range map[string]Link{
		"80mbit,50ms":    {10_000_000, 50 * time.Millisecond},
		"8kbit":          {1000, 0},
		"2.5gbit, 1ms":   {312_500_000, time.Millisecond},
		"unlimited":      {},
		"unlimited,20ms": {0, 20 * time.Millisecond},
	} {
		if got, err := ParseLink(s); got != want || err != nil {
			t.Errorf("%q: %v %v", s, got, err)
		}
	}
	for _, s := range []string{"", "80", "mbit", "-1mbit", "0mbit", "80mbit,", "80mbit,5", "80mbit,-5ms", "nanmbit",
		"infgbit", "1e300gbit", "80mbit,5ms,5ms", "80mbit,9999h", "80 apples"} {
		if got, err := ParseLink(s); err == nil {
			t.Errorf("%q was read as %v", s, got)
		}
	}
}

func TestLinkTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Link{Rate: rapid.Uint64Range(0, 1e12).Draw(t, "rate"), Delay: time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "delay"))}
		if back, err := ParseLink(l.String()); err != nil || back != l {
			t.Fatalf("%+v is written as %s and read as %+v, %v", l, l, back, err)
		}
	})
}

func TestLaneIsAQueue(t *testing.T) {
	lane := Lane{Link: Link{Rate: 1000, Delay: 50 * time.Millisecond}}
	for _, c := range []struct {
		now  time.Duration
		size int
		want time.Duration
	}{
		{0, 1000, 1050 * time.Millisecond},                          // alone: size over rate, and the delay
		{0, 500, 1550 * time.Millisecond},                           // behind the first
		{time.Second, 100, 1650 * time.Millisecond},                 // still behind both
		{10 * time.Second, 1, 10*time.Second + 51*time.Millisecond}, // the link was idle
		{10 * time.Second, 0, 10*time.Second + 51*time.Millisecond}, // nothing overtakes
	} {
		if got := lane.Deliver(c.now, c.size); got != c.want {
			t.Errorf("%d bytes at %v arrive at %v, want %v", c.size, c.now, got, c.want)
		}
	}
}

func TestLaneNeverExceedsItsRateNorReorders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		link := Link{Rate: rapid.Uint64Range(1, 1e10).Draw(t, "rate"), Delay: time.Duration(rapid.IntRange(0, 1e9).Draw(t, "delay"))}
		lane, now, before, total := Lane{Link: link}, time.Duration(0), time.Duration(0), 0
		for range rapid.IntRange(1, 20).Draw(t, "messages") {
			now += time.Duration(rapid.IntRange(0, 1e9).Draw(t, "pause"))
			size := rapid.IntRange(0, 1<<24).Draw(t, "size")
			total += size
			arrival := lane.Deliver(now, size)
			if arrival < before || arrival < now+link.Delay {
				t.Fatalf("arrival %v, before %v, now %v", arrival, before, now)
			}
			if least := float64(total) / float64(link.Rate); (arrival - link.Delay).Seconds() < least*(1-1e-12) {
				t.Fatalf("%d bytes left after %v, at least %v s are needed", total, arrival-link.Delay, least)
			}
			before = arrival
		}
	})
}

func TestHugeSizesSaturate(t *testing.T) {
	lane := Lane{Link: Link{Rate: 1, Delay: time.Hour}}
	for range 3 {
		if got := lane.Deliver(0, math.MaxInt); got != math.MaxInt64 {
			t.Fatalf("arrival %v", got)
		}
	}
	if got := (Link{}).Occupies(math.MaxInt); got != 0 {
		t.Fatalf("unlimited link is busy for %v", got)
	}
}
