package sim

import (
	"strings"
	"testing"
)

// FuzzScenario plays strange scripts on a small network, in no virtual time: what a command means, not what comes of it.
func FuzzScenario(f *testing.F) {
	for _, s := range []string{
		"view\n----\nok\n\nminers", "join n=2 factor=0.5", "kill miner=1\nrevive miner=1", "cut miner=2 for=1s",
		"adversary miner=1 kind=nan rate=0.5 with=2", "nan miner=1 kind=loss n=3", "duplicate miner=1 n=2", "stop now\ntotals", "# comment\n\n----",
		"slow miner=1 factor=1e9", "lose stage=99", "hub down for=1s", "pay\naudits\nsybils\nhashes\nlaws\nclasp", "a=b =c ==",
	} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, script string) {
		if len(script) > 400 || strings.Contains(script, "network") || strings.Contains(script, "run") {
			return // these take long
		}
		var c Scenario
		defer c.Close()
		if _, err := c.Do("network stages=2 miners=3 validators=1"); err != nil {
			panic(err)
		}
		_, _ = c.Play(script) // a mistake, or not: never a panic
	})
}
