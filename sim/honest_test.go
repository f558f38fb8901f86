package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iota-train/iota/protocol/clasp"
	"github.com/iota-train/iota/role/orchestrator"
)

var honestSeeds = flag.Int("honestseeds", usualHonest, "how many simulations of honest participants to run")

// honestRun is a simulation in which everybody is honest: machines are slow, die, come back with and without what they
// saved, join, and lose their connections. What the run says of them is counted while it goes on.
type honestRun struct {
	sim    *Sim
	dice   *rand.Rand
	epoch  uint64 // whose evaluation of losses is counted next
	counts honestCounts
}

// honestCounts are sums over miners and epochs.
type honestCounts struct {
	epochs, evaluations, flagged, screened  int
	passed, unverified, segments, shards    uint64
	emissions, probations, unproven         int     // entries of the ledger
	emitted, burned                         uint64  // micro-units: earned, and of that burned as unproven
	merged, unmerged, late                  uint64  // micro-batches, by stage; of the unmerged those that were paid
	spread                                  float64 // widest in one epoch: most pay per unit of work over least, less 1
	kills, revivals, joins, restarts, vkill int
}

func (c *honestCounts) add(o honestCounts) {
	c.epochs, c.evaluations, c.flagged, c.screened = c.epochs+o.epochs, c.evaluations+o.evaluations, c.flagged+o.flagged, c.screened+o.screened
	c.passed, c.unverified, c.segments, c.shards = c.passed+o.passed, c.unverified+o.unverified, c.segments+o.segments, c.shards+o.shards
	c.emissions, c.probations, c.unproven = c.emissions+o.emissions, c.probations+o.probations, c.unproven+o.unproven
	c.emitted, c.burned, c.late = c.emitted+o.emitted, c.burned+o.burned, c.late+o.late
	c.merged, c.unmerged, c.spread = c.merged+o.merged, c.unmerged+o.unmerged, max(c.spread, o.spread)
	c.kills, c.revivals, c.joins = c.kills+o.kills, c.revivals+o.revivals, c.joins+o.joins
	c.restarts, c.vkill = c.restarts+o.restarts, c.vkill+o.vkill
}

// honestNetwork is the `network` command of a seed: 12 miners in 3 stages that train for real, in short segments.
func honestNetwork(seed int) string {
	d := rand.New(rand.NewPCG(uint64(seed), 3))
	pick := func(list ...string) string { return list[d.IntN(len(list))] }
	return fmt.Sprintf("network preset=nano stages=3 miners=12 seed=%d epochs=10 h=%d k=%d c=%d", seed, 3+d.IntN(3), 1+d.IntN(2), 1+d.IntN(2)) +
		fmt.Sprintf(" audit=%s validators=%d part=100000 q=%s slots=%d", pick("0.1", "0.2", "0.3"), 1+d.IntN(2), pick("1", "0.75"), 2+d.IntN(2)) +
		fmt.Sprintf(" link=%s lease=%s real", pick("unlimited,1ms", "unlimited,20ms", "100mbit,5ms"), pick("1s", "2s"))
}

// play runs the simulation of a seed to its end and returns what is wrong, if anything is.
func (h *honestRun) play() error {
	s := h.sim
	for _, m := range s.machines {
		m.Slow(0.5 + float64(4.5*h.dice.Float64()*h.dice.Float64()))
	}
	for range 24 {
		if h.run(time.Duration(h.dice.Int64N(int64(800 * time.Millisecond)))) {
			break
		}
		h.trouble()
	}
	for _, m := range slices.Concat(s.machines, s.validators) {
		if !m.up {
			m.Revive(0)
		}
	}
	finished := h.run(3 * time.Hour)
	if err := s.Verify(); err != nil {
		return err
	}
	if !finished {
		return fmt.Errorf("the run does not end")
	}
	if err := h.nobodyIsBlamed(); err != nil {
		return err
	}
	return h.payIsEqual()
}

// run lets time pass, and reports whether the run is over.
func (h *honestRun) run(d time.Duration) bool {
	return h.sim.Run(func() bool {
		h.count()
		return h.sim.Finished()
	}, d)
}

// count takes in what the losses of an epoch's training said, once, when they were evaluated.
func (h *honestRun) count() {
	o := h.sim.hub.core
	if o.Epoch != h.epoch || o.Phase == orchestrator.Training || o.Phase == orchestrator.Waiting {
		return
	}
	h.epoch++
	h.counts.epochs++
	for _, m := range o.Miners {
		if m.Clasp.Peers > 0 && m.Clasp.Samples >= clasp.MinSamples {
			h.counts.evaluations++
		}
		if m.Clasp.Flagged {
			h.counts.flagged++
			h.sim.note("miner %d is flagged: %+v", m.Number+1, m.Clasp)
		}
		if m.Screened {
			h.counts.screened++
		}
	}
}

// trouble does one of the things that happen to honest participants.
func (h *honestRun) trouble() {
	s, c := h.sim, &h.counts
	m := s.machines[h.dice.IntN(len(s.machines))]
	short := time.Duration(h.dice.Int64N(int64(2 * time.Second)))
	switch h.dice.IntN(12) {
	case 0, 1, 2:
		c.kills++
		m.Kill()
	case 3, 4, 5:
		if i := slices.IndexFunc(s.machines, func(m *Machine) bool { return !m.up }); i >= 0 {
			c.revivals++
			s.machines[i].Revive([]int{0, 0, 1, len(s.machines[i].saves)}[h.dice.IntN(4)])
		}
	case 6:
		if len(s.machines) < 16 {
			c.joins++
			s.Join(1).Slow(0.5 + 3*h.dice.Float64())
		}
	case 7:
		m.Slow([]float64{0.5, 1, 3, 6, 20}[h.dice.IntN(5)])
	case 8:
		m.Disconnect(short)
	case 9:
		if !m.cut {
			m.Cut(short)
		}
	case 10:
		c.restarts++
		s.Restart([]time.Duration{0, short, 2 * short}[h.dice.IntN(3)])
	case 11:
		v := s.validators[h.dice.IntN(len(s.validators))]
		if !v.up {
			v.Revive(0)
			return
		}
		c.vkill++
		v.Kill()
	}
}

// nobodyIsBlamed: no verdict failed, nobody lost an arbitration or had a part in one, and nobody was withdrawn.
func (h *honestRun) nobodyIsBlamed() error {
	o := h.sim.hub.core
	t, c := o.AuditTotals, &h.counts
	c.unverified, c.segments, c.shards = t.Unverified, t.Segments, t.Shards
	if len(o.Evidence) > 0 || t.Mismatches > 0 || o.Counters.Disagreements > 0 || o.Counters.Kicked > 0 {
		return fmt.Errorf("%d failed verdicts, %d disagreements, %d withdrawn: %v", t.Mismatches, o.Counters.Disagreements,
			o.Counters.Kicked, o.Evidence)
	}
	for i, m := range o.Miners {
		c.passed += m.Passed
		if m.Failed > 0 || m.Disagreed > 0 || m.Barred != "" {
			return fmt.Errorf("miner %d: %d failed verdicts, %d lost arbitrations, withdrawn: %q", i+1, m.Failed, m.Disagreed, m.Barred)
		}
	}
	for i, v := range o.Validators {
		if v.Wrong > 0 || v.Mismatches > 0 || v.Barred != "" {
			return fmt.Errorf("validator %d: %d wrong, %d mismatches, withdrawn: %q", i+1, v.Wrong, v.Mismatches, v.Barred)
		}
	}
	for _, s := range o.Stages {
		c.merged, c.unmerged = c.merged+s.Merged, c.unmerged+s.Unmerged
	}
	return nil
}

func TestHonestParticipantsAreNeverBlamedAndPaidAlike(t *testing.T) {
	var all honestCounts
	first, last := 1, *honestSeeds
	if *onlySeed != 0 {
		first, last = *onlySeed, *onlySeed
	}
	for seed := first; seed <= last; seed++ {
		var c Scenario
		network := honestNetwork(seed)
		if _, err := c.Do(network); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		h := honestRun{sim: c.Sim(), dice: rand.New(rand.NewPCG(uint64(seed), 4))}
		err := h.play()
		if err != nil || *onlySeed != 0 {
			lines := h.sim.Lines()
			if *onlySeed == 0 {
				lines = lines[max(0, len(lines)-25):]
			}
			t.Logf("%s\n%s", network, strings.Join(lines, "\n"))
		}
		if err != nil {
			t.Errorf("seed %d: %v: run it alone with -run Honest -seed %d", seed, err, seed)
		}
		all.add(h.counts)
		c.Close()
	}
	t.Logf("%d seeds: %+v", last-first+1, all)
	if all.flagged*100 > all.evaluations {
		t.Errorf("seeds %d to %d: %d of %d evaluations of honest miners are flags", first, last, all.flagged, all.evaluations)
	}
}
