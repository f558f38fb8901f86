package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/sim/adversary"
)

// trustBench is which cheating to measure, and in how many networks.
type trustBench struct {
	kinds           []string
	rates           []float64
	seeds           int
	from            uint64 // the first seed
	stages, miners  int    // miners of the whole network
	validators      int
	speed           float64 // of a validator, that of a miner is 1
	epochs          int
	innerSteps      int
	commitEvery     int
	auditShare      float64
	shardShare      float64
	aggregate       string
	challengeWindow int
	untilFound      bool
}

// trustCell is one kind of cheating at one rate.
type trustCell struct {
	kind string // "" for an honest network
	rate float64
}

func (c trustCell) name() string {
	if c.kind == "" {
		return "honest"
	}
	return fmt.Sprintf("%s:%v", c.kind, c.rate)
}

func benchTrustCommand() *cobra.Command {
	b := &trustBench{}
	var asJSON bool
	c := &cobra.Command{
		Use: "trust", Short: "What cheating earns and costs: how soon each kind is caught, its pay, and the loss", Args: noArgs,
		Long: "Plays networks of the preset nano, which train for real in virtual time, each with one cheating miner (two that share\n" +
			"a shard for collude-reduce; a cheating validator beside an honest one for lazy and lying) and beside it, with the same\n" +
			"seed, one of the honest miners alone. All numbers follow from the seeds. A row is printed when it is known.\n\n" +
			"caught is the share of networks in which the cheater was withdrawn, within 3 the share that was caught within three\n" +
			"epochs from the first false act, epochs the mean number until then, and by what found it most often: an audit, false\n" +
			"claims, numbers that are not finite. found is how often an epoch of cheating was found (an answer of a validator),\n" +
			"formula what docs/economics.md derives for the kind (from the logs of the honest miners of the same stage and epoch),\n" +
			"with half of its 95 % interval (+-), and whether found lies in it. slow and drop falsify nothing. earned is the\n" +
			"cheaters' pay, escrow included, as a share of what a miner earns in the honest network; loss_eval a ratio to the honest\n" +
			"network's, with its standard error (+-); audited is replayed work over all work; wronged counts honest participants that\n" +
			"were withdrawn or failed an audit, stuck the networks that did not end; unverified is the share of the audits that ended\n" +
			"without a verdict.\n\n" +
			"All kinds at both rates take about a minute per seed on two cores.",
		Example: "  iota bench trust --seeds 3\n  iota bench trust --kind free-rider,bad-reduce --rate 1,0.1 --seeds 40 --json",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := b.check(); err != nil {
				return err
			}
			out := c.OutOrStdout()
			if asJSON {
				out = c.ErrOrStderr()
			}
			fmt.Fprintln(out, trustHeader)
			table, err := b.measure(c.Context(), func(row trustRow) { fmt.Fprintln(out, row) })
			if err == nil && asJSON {
				err = b.report(table).print(c.OutOrStdout(), true)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringSliceVar(&b.kinds, "kind", nil, "kinds of cheating; repeatable (default: all)")
	f.Float64SliceVar(&b.rates, "rate", []float64{1, 0.1}, "share of tasks in which the cheater acts; repeatable")
	f.IntVar(&b.seeds, "seeds", 3, "networks of each kind and rate")
	f.Uint64Var(&b.from, "from", 1, "the first seed")
	f.IntVar(&b.stages, "stages", 3, "stages")
	f.IntVar(&b.miners, "miners", 12, "miners of a network, the cheaters among them")
	f.IntVar(&b.validators, "validators", 1, "validators of a network")
	f.Float64Var(&b.speed, "validator-speed", 4, "of a validator, in miners: validators must keep up with the audit share of all work")
	f.IntVar(&b.epochs, "epochs", 8, "epochs of a network")
	f.IntVar(&b.innerSteps, "inner-steps", 8, "inner steps of a miner per epoch")
	f.IntVar(&b.commitEvery, "commit-every", 1, "inner steps of the segments of which audits are drawn")
	f.Float64Var(&b.auditShare, "audit-share", 0.35, "replayed work over all work")
	f.Float64Var(&b.shardShare, "shard-share", 1, "share of the merged shards that are reduced again")
	f.IntVar(&b.challengeWindow, "challenge-window", 4, "epochs in which work can be challenged")
	f.StringVar(&b.aggregate, "aggregate", "mean", "how sources are merged")
	f.BoolVar(&b.untilFound, "until-found", false, "end a network when its cheater is found, half of the time at a rate of 0.1: then loss_eval says nothing")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// check refuses what the command line shows to be wrong; the scenario's commands refuse the rest.
func (b *trustBench) check() error {
	if len(b.kinds) == 0 {
		b.kinds = adversary.Kinds()
	}
	b.kinds, b.rates = unique(b.kinds), unique(b.rates)
	for _, kind := range b.kinds {
		if !slices.Contains(adversary.Kinds(), kind) {
			return usagef("--kind %q: use %s", kind, strings.Join(adversary.Kinds(), ", "))
		}
	}
	for _, rate := range b.rates {
		if !(rate > 0 && rate <= 1) {
			return usagef("--rate %v: use a share above 0, at most 1", rate)
		}
	}
	for _, share := range []struct {
		flag  string
		value float64
	}{{"audit-share", b.auditShare}, {"shard-share", b.shardShare}} {
		if !(share.value >= 0 && share.value <= 1) {
			return usagef("--%s %v: use a share from 0 to 1", share.flag, share.value)
		}
	}
	if !(b.speed >= 0.01 && b.speed <= 100) {
		return usagef("--validator-speed %v: use 0.01 to 100", b.speed)
	}
	for _, n := range []struct {
		flag          string
		value, lo, hi int
	}{
		{"seeds", b.seeds, 1, 1 << 16}, {"stages", b.stages, 1, 3}, {"miners", b.miners, 3 * b.stages, 300},
		{"validators", b.validators, 1, 100}, {"epochs", b.epochs, 1, 1 << 16}, {"challenge-window", b.challengeWindow, 1, 64},
		{"inner-steps", b.innerSteps, 1, 1 << 16}, {"commit-every", b.commitEvery, 1, 1 << 16},
	} {
		if n.value < n.lo || n.value > n.hi {
			return usagef("--%s %d: use %d to %d", n.flag, n.value, n.lo, n.hi)
		}
	}
	return nil
}

// measure plays all networks, on all cores, and tells each row when it is known.
func (b *trustBench) measure(ctx context.Context, known func(trustRow)) ([]trustRow, error) {
	cells := []trustCell{{}}
	for _, kind := range b.kinds {
		for _, rate := range b.rates {
			cells = append(cells, trustCell{kind, rate})
		}
	}
	var honest []trustOutcome
	var table []trustRow
	for _, cell := range cells {
		outcomes, err := b.playAll(ctx, cell)
		if err != nil {
			return nil, err
		}
		if cell.kind == "" {
			honest = outcomes
		}
		table = append(table, summarise(cell, outcomes, honest))
		known(table[len(table)-1])
	}
	return table, nil
}
