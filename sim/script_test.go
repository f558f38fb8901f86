package sim

import (
	"os"
	"strings"
	"testing"
)

func TestATranscriptPlayedAgainIsTheSame(t *testing.T) {
	for _, name := range []string{"clean", "rules", "restart-phases", "join-merge"} {
		b, err := os.ReadFile("testdata/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		var c Scenario
		p, err := c.Play(string(b))
		c.Close()
		if err != nil || p.Different != "" || p.Text != string(b) {
			t.Errorf("%s: %v, %s", name, err, p.Different)
		}
	}
}

func TestPlayAddsOutputComparesAndNamesLines(t *testing.T) {
	play := func(text string) (Played, error) {
		var c Scenario
		defer c.Close()
		return c.Play(text)
	}
	p, err := play("# a comment\nnetwork miners=3\nrun until=time:1ms\n\nlaws\n")
	want := "# a comment\nnetwork miners=3\n----\nok\n\nrun until=time:1ms\n----\n0.00s Waiting of epoch 0: waiting for a miner in every stage\n\nlaws\n----\nthe laws hold\n"
	if err != nil || p.Different != "" || p.Text != want {
		t.Errorf("played %q, %v, %s", p.Text, err, p.Different)
	}
	if p, err = play(want); err != nil || p.Text != want || p.Different != "" {
		t.Errorf("again: %q, %v, %s", p.Text, err, p.Different)
	}
	p, err = play(strings.Replace(want, "the laws hold", "no law holds", 1))
	if err != nil || p.Different != `line 12: expected "no law holds", got "the laws hold"` || p.Text != want {
		t.Errorf("%v, %s", err, p.Different)
	}
	for text, want := range map[string]string{
		"laws":                          "line 1: laws: there is no network yet: begin with one",
		"network\nfly":                  "line 2: fly: name one of the 6 miners, as in miner=1",
		"network\nfly miner=1":          "line 2: fly: no such command",
		"network miners=100000000":      "line 1: network: miners=100000000: use at most 1024",
		"network h=4294967299":          "line 1: network: argument h=4294967299 is a whole number from 0",
		"network miners=x":              "line 1: network: argument miners=x is a whole number from 0",
		"network wings=2":               "line 1: network: unknown argument wings",
		"network stages=9":              "line 1: network: ",
		"network link=fast":             "line 1: network: ",
		"network lease=0s":              "line 1: network: rules: lease is 0s: use a time above 0",
		"network\nrun until=noon":       `line 2: run: until "noon": use epoch:N`,
		"network\nrun until=task:FLY":   `line 2: run: until "task:FLY": no such task`,
		"network\nkill miner=7":         "line 2: kill: name one of the 6 miners, as in miner=1",
		"network\nkill miner=1 miner=2": "line 2: kill: argument miner is given twice",
	} {
		if _, err := play(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q gives %v, want %s", text, err, want)
		}
	}
}
