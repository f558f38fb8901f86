package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// withLiars runs a network with one lasting liar in each of some stages, all of which have two or three miners.
func withLiars(t *testing.T, seed int) {
	t.Helper()
	var c Scenario
	defer c.Close()
	d := rand.New(rand.NewPCG(uint64(seed), 2))
	stages := 2 + d.IntN(2)
	network := fmt.Sprintf("network seed=%d stages=%d miners=%d epochs=%d h=%d slots=%d lease=500ms", seed, stages, stages*(2+d.IntN(2)),
		4+d.IntN(8), 1+d.IntN(6), 1+d.IntN(4))
	if _, err := c.Do(network); err != nil {
		t.Fatal(err)
	}
	s := c.Sim()
	s.Run(func() bool { return s.hub.core.Phase == "Training" }, time.Minute)
	always := map[int]string{} // what those lie about who always lie
	for stage := range stages {
		kind := []string{"false-nan", "false-missing", "false-unfit", "nan", ""}[d.IntN(5)]
		rate := []float64{1, 1, 0.5, 0.2}[d.IntN(4)]
		for i, m := range s.hub.core.Miners {
			if kind == "" || m.Stage != stage {
				continue
			}
			if err := s.Machine(i+1).Lie(kind, rate); err != nil {
				t.Fatal(err)
			}
			if rate == 1 {
				always[i] = kind
			}
			break
		}
	}
	finished := s.Run(s.Finished, 3*time.Hour)
	if err := s.Verify(); err != nil || !finished {
		t.Errorf("%s: finished %v, %v, %v", network, finished, err, always)
	}
	for i, m := range s.hub.core.Miners {
		if m.Barred != "" && !s.Machine(i+1).erred {
			t.Errorf("%s: honest miner %d was withdrawn: %s", network, i+1, m.Barred)
		}
		if kind := always[i]; (kind == "false-nan" || kind == "false-missing" || kind == "nan") && m.Barred == "" {
			t.Errorf("%s: miner %d was not withdrawn for %s", network, i+1, kind)
		}
	}
	if t.Failed() {
		lines := s.Lines()
		for _, line := range lines[max(0, len(lines)-40):] {
			t.Log(line)
		}
		for _, line := range append(c.miners(), c.totals()...) {
			t.Log(line)
		}
		t.FailNow()
	}
}

func TestRandomLiarsAreWithdrawnAndHonestMinersStay(t *testing.T) {
	for seed := 1; seed <= *seeds; seed++ {
		withLiars(t, seed)
	}
}
