package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var (
	onlySeed = flag.Int("seed", 0, "the one random simulation to run, with its transcript")
	seeds    = flag.Int("seeds", usualSeeds, "how many random simulations to run")
	events   = flag.Int("events", 20, "disturbances of each")
	pause    = flag.Duration("pause", 500*time.Millisecond, "longest time between two of them")
)

// randomNetwork is the `network` command of a seed.
func randomNetwork(seed int) string {
	d := rand.New(rand.NewPCG(uint64(seed), 1))
	pick := func(list ...string) string { return list[d.IntN(len(list))] }
	stages, epochs, real := 1+d.IntN(3), 4+d.IntN(9), ""
	if d.IntN(8) == 0 {
		epochs, real = 3, " real"
	}
	return fmt.Sprintf("network seed=%d stages=%d miners=%d epochs=%d h=%d k=%d q=%s", seed, stages, stages+d.IntN(2*stages+2),
		epochs, 1+d.IntN(4), 1+d.IntN(2), pick("1", "1", "0.5")) +
		fmt.Sprintf(" link=%s lease=%s epoch=%s slots=%d", pick("unlimited", "unlimited,20ms", "10mbit,5ms"), pick("500ms", "2s"),
			pick("5s", "30s"), 1+d.IntN(4)) +
		fmt.Sprintf(" keep=%d heldoutper=%d reconnect=%s patience=%s", d.IntN(2), d.IntN(3), pick("2s", "10s"), pick("5s", "30s")) + audited(seed) + real
}

// audited adds validators to two of three networks.
func audited(seed int) string {
	d := rand.New(rand.NewPCG(uint64(seed), 2))
	if d.IntN(3) == 0 {
		return ""
	}
	return fmt.Sprintf(" audit=%v validators=%d window=%d c=%d", []float64{0.1, 0.5, 1}[d.IntN(3)], 1+d.IntN(3), 1+d.IntN(2), 1+d.IntN(4))
}

// simulate runs the random simulation of a seed and returns its hashes.
func simulate(t *testing.T, seed int) string {
	t.Helper()
	var c Scenario
	defer c.Close()
	network := randomNetwork(seed)
	if _, err := c.Do(network); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	s := c.Sim()
	liar := seed%3 == 0
	if kinds := []string{"false-nan", "false-missing", "false-unfit", "nan"}; liar {
		if err := s.Machine(1).Lie(kinds[seed/3%4], []float64{1, 0.3}[seed%2]); err != nil {
			t.Fatal(err)
		}
	}
	s.Chaos(*events, *pause)
	if liar && !s.Finished() {
		s.Join(2) // it may have been withdrawn, and few were there
	}
	if len(s.validators) > 0 && !s.Finished() {
		s.Join(4) // who erred once is withdrawn
	}
	finished := s.Run(s.Finished, 3*time.Hour)
	err := s.Verify()
	if err == nil && !finished {
		err = fmt.Errorf("seed %d: the run does not end: %s", seed, strings.Join(c.view(), "; "))
	}
	if err != nil || *onlySeed != 0 {
		lines := s.Lines()
		if *onlySeed == 0 {
			lines = lines[max(0, len(lines)-25):]
		}
		t.Logf("%s\n%s\n%s", network, strings.Join(lines, "\n"), strings.Join(c.miners(), "\n"))
	}
	if err != nil {
		t.Errorf("%v: run it alone with -run Random -seed %d", err, seed)
	}
	return strings.Join(c.hashes(), " ")
}

func TestRandomSimulationsKeepTheLawsAndEnd(t *testing.T) {
	if *onlySeed != 0 {
		simulate(t, *onlySeed)
		return
	}
	for seed := 1; seed <= *seeds; seed++ {
		simulate(t, seed)
	}
}

func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	for seed := 1; seed <= 10; seed++ {
		if a, b := simulate(t, seed), simulate(t, seed); a != b {
			t.Errorf("seed %d: %s, then %s", seed, a, b)
		}
	}
}
