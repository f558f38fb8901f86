package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

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
			"seed, one of the honest miners alone. All numbers follow from the seeds.\n\n" +
			"caught is the share of networks in which the cheater was withdrawn, formula the share that audits find of a cheat that\n" +
			"falsifies this share of its micro-batches (docs/economics.md, with the replays of the honest networks; it says nothing\n" +
			"of slow and drop, which falsify nothing), within 3 the share that was caught within three epochs, epochs the mean number\n" +
			"until then, and by what found it most often: an audit, false claims, numbers that are not finite. earned is the\n" +
			"cheaters' pay, escrow included, as a share of what a miner earns in the honest network; loss_eval a ratio to the honest\n" +
			"network's, with its standard error (+-); wronged counts honest participants that were withdrawn or failed an audit,\n" +
			"stuck the networks that did not end; unverified is the share of the audits that ended without a verdict.\n\n" +
			"All kinds at both rates take about a minute per seed on two cores, and print nothing until the end.",
		Example: "  iota bench trust --seeds 3\n  iota bench trust --kind free-rider,bad-reduce --rate 1,0.1 --seeds 40 --json",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := b.check(); err != nil {
				return err
			}
			table, err := b.measure(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return b.report(table).print(c.OutOrStdout(), true)
			}
			return printTrust(c.OutOrStdout(), table)
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

// trustRow is a cell's outcome over all seeds.
type trustRow struct {
	trustCell
	networks, caught, within3 int
	formula                   float64 // share that replays find by the formula, see summarise
	epochs                    float64 // mean until caught
	by                        string
	earned                    float64 // of the cheaters, over an honest miner's
	loss, lossError           float64 // mean ratio to the honest network's, and its standard error
	wronged                   int
	stuck                     int     // networks that did not end in time
	unverified                float64 // share of the audits that ended without a verdict
}

// measure plays all networks, on all cores.
func (b *trustBench) measure(ctx context.Context) ([]trustRow, error) {
	cells := []trustCell{{}}
	for _, kind := range b.kinds {
		for _, rate := range b.rates {
			cells = append(cells, trustCell{kind, rate})
		}
	}
	honest := make([]trustOutcome, b.seeds)
	var table []trustRow
	for _, cell := range cells {
		outcomes, err := b.playAll(ctx, cell)
		if err != nil {
			return nil, err
		}
		if cell.kind == "" {
			honest = outcomes
		}
		table = append(table, b.summarise(cell, outcomes, honest))
	}
	return table, nil
}

// summarise makes a row of the outcomes, each beside the honest network of its seed.
func (b *trustBench) summarise(cell trustCell, outcomes, honest []trustOutcome) trustRow {
	row := trustRow{trustCell: cell, networks: len(outcomes)}
	reasons := map[string]int{}
	var ratios []float64
	for i, o := range outcomes {
		row.wronged += o.wronged
		row.unverified += ratio(float64(o.unverified), float64(o.audits)) / float64(len(outcomes))
		if o.stuck {
			row.stuck++
		}
		if o.caught > 0 {
			row.caught++
			row.epochs += float64(o.caught)
			reasons[o.by]++
		}
		if o.caught > 0 && o.caught <= 3 {
			row.within3++
		}
		row.earned += ratio(o.earned, honest[i].fair) / float64(len(outcomes))
		ratios = append(ratios, ratio(o.loss, honest[i].loss))
	}
	row.formula = b.detection(cell, honest)
	row.epochs /= max(1, float64(row.caught))
	for _, by := range slices.Sorted(maps.Keys(reasons)) {
		if reasons[by] > reasons[row.by] {
			row.by = by
		}
	}
	row.loss, row.lossError = meanAndError(ratios)
	return row
}

// detection is formula (1) of docs/economics.md over a whole run, 1 - E[(1 - r)^M], where M is the micro-batches of which
// audits replayed each miner of the last stage in the honest networks. It holds for who falsifies a share r of them.
// Two colluders have one shard in common in an epoch, which is drawn with the shard share.
func (b *trustBench) detection(cell trustCell, honest []trustOutcome) float64 {
	if cell.kind == "collude-reduce" {
		return 1 - math.Pow(1-cell.rate*b.shardShare, float64(b.epochs))
	}
	missed, miners := 0.0, 0.0
	for _, o := range honest {
		for _, replayed := range o.replayed {
			missed += math.Pow(1-cell.rate, replayed)
			miners++
		}
	}
	return 1 - missed/max(1, miners)
}

// meanAndError returns the mean of values and its standard error.
func meanAndError(values []float64) (mean, standardError float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		standardError += (v - mean) * (v - mean)
	}
	n := float64(len(values))
	return mean, math.Sqrt(standardError / max(1, n-1) / n)
}

// report is the JSON form.
func (b *trustBench) report(table []trustRow) *benchReport {
	r := &benchReport{Name: "trust", Config: map[string]any{
		"version": version(), "preset": "nano", "stages": b.stages, "miners": b.miners, "validators": b.validators, "validator_speed": b.speed, "epochs": b.epochs,
		"inner_steps": b.innerSteps, "commit_every": b.commitEvery, "audit_share": b.auditShare, "shard_share": b.shardShare,
		"challenge_window": b.challengeWindow, "aggregate": b.aggregate, "seeds": b.seeds, "first_seed": b.from,
	}}
	for _, row := range table {
		n := float64(row.networks)
		r.add(row.name(), "caught", float64(row.caught)/n, "share", "formula", row.formula)
		r.add(row.name(), "caught_within_3", float64(row.within3)/n, "share", "", 0)
		r.add(row.name(), "epochs_to_detection", row.epochs, "epochs", "", 0)
		r.add(row.name(), "earned", row.earned, "share", "honest_run", 1)
		r.add(row.name(), "loss_eval", row.loss, "ratio", "honest_run", 1)
		r.add(row.name(), "wronged", float64(row.wronged), "miners", "", 0)
		r.add(row.name(), "unverified", row.unverified, "share", "", 0)
		r.add(row.name(), "stuck", float64(row.stuck), "networks", "", 0)
	}
	return r
}

// printTrust prints one row per cell.
func printTrust(w io.Writer, table []trustRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "kind\trate\tnetworks\tcaught\tformula\twithin 3\tepochs\tby\tearned\tloss_eval\t+-\twronged\tstuck\tunverified")
	for _, r := range table {
		kind, rate := r.kind, fmt.Sprint(r.rate)
		if kind == "" {
			kind, rate = "honest", ""
		}
		n := float64(r.networks)
		fmt.Fprintf(t, "%s\t%s\t%d\t%.2f\t%.2f\t%.2f\t%.1f\t%s\t%.2f\t%.3f\t%.3f\t%d\t%d\t%.2f\n", kind, rate, r.networks, float64(r.caught)/n, r.formula,
			float64(r.within3)/n, r.epochs, r.by, r.earned, r.loss, r.lossError, r.wronged, r.stuck, r.unverified)
	}
	return t.Flush()
}
