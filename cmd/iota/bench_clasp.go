package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/protocol/clasp"
)

// claspCase is a game whose losses are drawn from known effects, played again and again.
type claspCase struct {
	name                      string
	stages, miners, bad, late int     // miners are those of a stage; bad and late ones are of the whole network
	effect, noise, fall       float64 // nats: what a bad miner adds, a loss's standard deviation, the trend's way down
	samples, epoch            int     // in the window; in an epoch of it
}

// claspReference is the case that every other one differs from in one respect.
var claspReference = claspCase{name: "reference", stages: 5, miners: 10, bad: 1, effect: 0.15, noise: 0.3, samples: 2000, epoch: 100}

// claspCases are what `bench clasp` measures by itself.
func claspCases() []claspCase {
	cases := []claspCase{claspReference}
	add := func(name string, change func(c *claspCase)) {
		c := claspReference
		c.name = name
		change(&c)
		cases = append(cases, c)
	}
	add("honest", func(c *claspCase) { c.bad = 0 })
	add("effect 0.05", func(c *claspCase) { c.effect = 0.05 })
	add("effect 0.1", func(c *claspCase) { c.effect = 0.1 })
	add("effect 0.5", func(c *claspCase) { c.effect = 0.5 })
	add("noise 0.6", func(c *claspCase) { c.noise = 0.6 })
	add("500 samples", func(c *claspCase) { c.samples = 500 })
	add("1000 samples", func(c *claspCase) { c.samples = 1000 })
	add("4000 samples", func(c *claspCase) { c.samples = 4000 })
	add("3 bad", func(c *claspCase) { c.bad = 3 })
	add("10 bad", func(c *claspCase) { c.bad = 10 })
	add("2 stages", func(c *claspCase) { c.stages = 2 })
	add("4 miners", func(c *claspCase) { c.miners = 4 })
	add("2 miners", func(c *claspCase) { c.miners = 2 })
	add("falling", func(c *claspCase) { c.fall = 1 })
	add("falling, 5 late", func(c *claspCase) { c.fall, c.late = 1, 5 })
	return cases
}

// estimators are the ways to attribute losses, the one that runs live first.
var estimators = []struct {
	name    string
	effects func(*clasp.Window) []clasp.Effect
}{
	{"least_squares", (*clasp.Window).Effects},
	{"marginal_mean", (*clasp.Window).Marginal},
	{"leave_one_out", (*clasp.Window).LeaveOneOut},
}

// claspBench is what to measure, and how often.
type claspBench struct {
	claspCase
	trials int
	seed   uint64
}

func benchClaspCommand() *cobra.Command {
	b := &claspBench{claspCase: claspReference}
	var asJSON bool
	c := &cobra.Command{
		Use: "clasp", Short: "How surely bad miners are told from losses, and how rarely honest ones are mistaken for them", Args: noArgs,
		Long: "Draws losses of random pathways from known effects and has CLASP find the bad miners: by least squares, as it runs live,\n" +
			"beside marginal means and leave-one-out means. Without flags it measures a list of cases that differ from the reference in\n" +
			"one respect; a flag that describes a case measures that one alone, which has the reference's numbers but for those given.\n\n" +
			"detection is the share of bad miners that are flagged, false_flags the share of honest ones, peer_shift the mean distance by\n" +
			"which a bad miner moves the z of its honest stage peers, against the same draws without it, and bias the mean error of a\n" +
			"bad miner's effect. Bad miners take the stages in turn; late ones join at half time.",
		Example: "  iota bench clasp --json\n  iota bench clasp --stages 5 --miners 10 --bad 1 --effect 0.15 --noise 0.3 --samples 2000 --trials 1000",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := b.check(); err != nil {
				return err
			}
			cases := claspCases()
			for _, name := range []string{"stages", "miners", "bad", "late", "effect", "noise", "fall", "samples", "epoch"} {
				if c.Flags().Changed(name) {
					b.name = "chosen"
					cases = []claspCase{b.claspCase}
				}
			}
			report, err := b.measure(c.Context(), cases)
			if err != nil {
				return err
			}
			return report.print(c.OutOrStdout(), asJSON)
		},
	}
	f := c.Flags()
	f.IntVar(&b.stages, "stages", b.stages, "stages")
	f.IntVar(&b.miners, "miners", b.miners, "miners of a stage")
	f.IntVar(&b.bad, "bad", b.bad, "bad miners in the network")
	f.IntVar(&b.late, "late", b.late, "honest miners that join at half time")
	f.Float64Var(&b.effect, "effect", b.effect, "what a bad miner adds to the loss, nats")
	f.Float64Var(&b.noise, "noise", b.noise, "standard deviation of a loss, nats")
	f.Float64Var(&b.fall, "fall", b.fall, "by how much the loss falls in the window, nats")
	f.IntVar(&b.samples, "samples", b.samples, "samples in the window")
	f.IntVar(&b.epoch, "epoch", b.epoch, "samples of an epoch")
	f.IntVar(&b.trials, "trials", 100, "windows of each case")
	f.Uint64Var(&b.seed, "seed", 1, "of the draws")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// check refuses what the command line shows to be wrong.
func (b *claspBench) check() error {
	for _, n := range []struct {
		flag          string
		value, lo, hi int
	}{
		{"stages", b.stages, 1, 64}, {"miners", b.miners, 1, 1024}, {"samples", b.samples, 1, 1 << 20}, {"epoch", b.epoch, 1, 1 << 20},
		{"trials", b.trials, 1, 1 << 20}, {"bad", b.bad, 0, b.stages * b.miners}, {"late", b.late, 0, max(0, b.stages*(b.miners-1)-b.bad)},
	} {
		if n.value < n.lo || n.value > n.hi {
			return usagef("--%s %d: use %d to %d", n.flag, n.value, n.lo, n.hi)
		}
	}
	for _, x := range []struct {
		flag  string
		value float64
	}{{"effect", b.effect}, {"noise", b.noise}, {"fall", b.fall}} {
		if !(math.Abs(x.value) <= 1e6) || x.value < 0 && x.flag == "noise" {
			return usagef("--%s %v: use a number of nats", x.flag, x.value)
		}
	}
	return nil
}

// measure plays every case and reports each estimator's rates, those of least squares beside the others'.
func (b *claspBench) measure(ctx context.Context, cases []claspCase) (*benchReport, error) {
	shapes := map[string]string{}
	report := &benchReport{Name: "clasp", Config: map[string]any{
		"version": version(), "trials": b.trials, "seed": b.seed, "stated_false_rate": clasp.FalseRate, "cases": shapes}}
	for _, one := range cases {
		shapes[one.name] = one.describe()
		rates := make([]claspRates, len(estimators))
		for trial := range b.trials {
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			one.trial(rates, b.seed<<32+uint64(trial))
		}
		for i, e := range estimators[1:] {
			ours, other := rates[0].results(), rates[i+1].results()
			for k, r := range ours {
				if r.count > 0 {
					report.add(one.name, r.metric, r.value, r.unit, e.name, other[k].value)
				}
			}
		}
	}
	return report, nil
}

// describe is the case in words.
func (c claspCase) describe() string {
	return fmt.Sprintf("%d stages x %d miners, %d bad by %+g nats, %d late, noise %g, fall %g, %d samples, %d in an epoch",
		c.stages, c.miners, c.bad, c.effect, c.late, c.noise, c.fall, c.samples, c.epoch)
}

// claspRates adds up what an estimator did.
type claspRates struct {
	bad, detected, compared, honest, flagged, peers int // compared: of the bad ones
	shift, bias                                     float64
}

type claspResult struct {
	metric, unit string
	value        float64
	count        int
}

func (r claspRates) results() []claspResult {
	of := func(sum float64, n int) float64 { return ratio(sum, float64(n)) }
	return []claspResult{
		{"detection", "share", of(float64(r.detected), r.bad), r.bad},
		{"false_flags", "share", of(float64(r.flagged), r.honest), r.honest},
		{"peer_shift", "z", of(r.shift, r.peers), r.peers},
		{"bias", "nats", of(r.bias, r.compared), r.compared},
	}
}

// isBad and isLate tell the roles of miner m of a stage: bad ones take the stages in turn, and so do the late ones after
// them.
func (c claspCase) isBad(stage, m int) bool { return m*c.stages+stage < c.bad }

func (c claspCase) isLate(stage, m int) bool {
	i := m*c.stages + stage - c.bad
	return i >= 0 && i < c.late
}

// trial plays a window with the bad miners and the same without them.
func (c claspCase) trial(rates []claspRates, seed uint64) {
	with, without := c.play(seed, c.effect), c.play(seed, 0)
	for i, e := range estimators {
		before, r := e.effects(without), &rates[i]
		for k, x := range e.effects(with) {
			m := x.Miner % c.miners
			if c.isBad(x.Stage, m) {
				r.bad++
				if x.Flagged {
					r.detected++
				}
				if x.Peers > 0 {
					r.compared++
					r.bias += x.Effect - c.truth(x.Stage)
				}
				continue
			}
			r.honest++
			if x.Flagged {
				r.flagged++
			}
			if c.isBad(x.Stage, 0) {
				r.peers++
				r.shift += math.Abs(x.Z - before[k].Z)
			}
		}
	}
}

// truth is a bad miner's effect against the mean of the honest miners of its stage, 0 where there is none.
func (c claspCase) truth(stage int) float64 {
	if c.isBad(stage, c.miners-1) {
		return 0
	}
	return c.effect
}

// play draws a window. Equal seeds draw equal pathways and noise.
func (c claspCase) play(seed uint64, effect float64) *clasp.Window {
	d := rand.New(rand.NewPCG(seed, 0))
	w := clasp.NewWindow(c.stages, c.samples)
	path := make([]int, c.stages)
	for i := range c.samples {
		at := float64(i) / float64(c.samples)
		loss := 3 + c.fall*1.1/(1+10*at) // falls fast at first
		for s := range path {
			m := d.IntN(c.miners)
			for 2*i < c.samples && c.isLate(s, m) {
				m = d.IntN(c.miners)
			}
			if path[s] = s*c.miners + m; c.isBad(s, m) {
				loss += effect
			}
		}
		w.Add(uint64(i/c.epoch), path, loss+c.noise*d.NormFloat64())
	}
	return &w
}
