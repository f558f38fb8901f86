package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// trustRow is a cell's outcome over all seeds.
type trustRow struct {
	trustCell
	networks, caught, within3 int
	epochs                    float64 // mean until caught
	by                        string
	chances                   int     // epochs of cheating until found, for a validator answers
	formula, spread           float64 // of so many found: the expected number, and its standard deviation
	earned                    float64 // of the cheaters, over an honest miner's
	loss, lossError           float64 // mean ratio to the honest network's, and its standard error; 0 if not all were played to the end
	audited                   float64 // replayed work over all work
	wronged                   int
	stuck                     int     // networks that did not end in time
	unverified                float64 // share of the audits that ended without a verdict
}

// summarise makes a row of the outcomes, each beside the honest network of its seed.
func summarise(cell trustCell, outcomes, honest []trustOutcome) trustRow {
	row := trustRow{trustCell: cell, networks: len(outcomes)}
	reasons := map[string]int{}
	var ratios []float64
	for i, o := range outcomes {
		row.wronged += o.wronged
		row.unverified += ratio(float64(o.unverified), float64(o.audits)) / float64(len(outcomes))
		row.audited += o.audited / float64(len(outcomes))
		if o.stuck {
			row.stuck++
		}
		if o.caught > 0 {
			took := o.caught - cell.first()
			row.caught++
			row.epochs += float64(took)
			reasons[o.by]++
			if took <= 3 {
				row.within3++
			}
		}
		for _, d := range o.chances {
			row.chances++
			row.formula += d
			row.spread += d * (1 - d)
		}
		row.earned += ratio(o.earned, honest[i].fair) / float64(len(outcomes))
		ratios = append(ratios, ratio(o.loss, honest[i].loss))
	}
	row.spread = math.Sqrt(row.spread)
	row.epochs /= max(1, float64(row.caught))
	for _, by := range slices.Sorted(maps.Keys(reasons)) {
		if reasons[by] > reasons[row.by] {
			row.by = by
		}
	}
	if !slices.ContainsFunc(outcomes, func(o trustOutcome) bool { return o.cut }) {
		row.loss, row.lossError = meanAndError(ratios)
	}
	return row
}

// half is half of the 95 % interval around the formula, in found.
func (r trustRow) half() float64 { return 1.96 * r.spread }

// holds reports whether as many were found as the formula says, within its interval.
func (r trustRow) holds() bool { return math.Abs(float64(r.caught)-r.formula) <= r.half()+1e-9 }

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
		r.add(row.name(), "caught", float64(row.caught)/n, "share", "formula", row.formula/n)
		r.add(row.name(), "caught_within_3", float64(row.within3)/n, "share", "", 0)
		r.add(row.name(), "epochs_to_detection", row.epochs, "epochs", "", 0)
		if chances := float64(row.chances); chances > 0 {
			r.add(row.name(), "found", float64(row.caught)/chances, "share of epochs", "formula", row.formula/chances)
			r.add(row.name(), "formula_interval", row.half()/chances, "share of epochs", "", 0)
		}
		r.add(row.name(), "earned", row.earned, "share", "honest_run", 1)
		if row.loss > 0 {
			r.add(row.name(), "loss_eval", row.loss, "ratio", "honest_run", 1)
			r.add(row.name(), "loss_eval_error", row.lossError, "ratio", "", 0)
		}
		r.add(row.name(), "audited", row.audited, "share", "audit_share", b.auditShare)
		r.add(row.name(), "wronged", float64(row.wronged), "miners", "", 0)
		r.add(row.name(), "unverified", row.unverified, "share", "", 0)
		r.add(row.name(), "stuck", float64(row.stuck), "networks", "", 0)
	}
	return r
}

const trustHeader = "kind            rate  networks  caught  within 3  epochs  by          found  formula  +-     holds  earned  loss_eval  +-     audited  wronged  stuck  unverified"

// String is a line under trustHeader.
func (r trustRow) String() string {
	kind, rate, law := r.kind, fmt.Sprint(r.rate), fmt.Sprintf("%-5s  %-7s  %-5s  %-5s", "", "", "", "")
	if kind == "" {
		kind, rate = "honest", ""
	}
	if chances := float64(r.chances); chances > 0 {
		holds := "no"
		if r.holds() {
			holds = "yes"
		}
		law = fmt.Sprintf("%-5.3f  %-7.3f  %-5.3f  %-5s", float64(r.caught)/chances, r.formula/chances, r.half()/chances, holds)
	}
	loss := fmt.Sprintf("%-9s  %-5s", "", "")
	if r.loss > 0 {
		loss = fmt.Sprintf("%-9.3f  %-5.3f", r.loss, r.lossError)
	}
	n := float64(r.networks)
	return fmt.Sprintf("%-14s  %-4s  %-8d  %-6.2f  %-8.2f  %-6.1f  %-10s  %s  %-6.2f  %s  %-7.2f  %-7d  %-5d  %.2f", kind, rate, r.networks,
		float64(r.caught)/n, float64(r.within3)/n, r.epochs, r.by, law, r.earned, loss, r.audited, r.wronged, r.stuck, r.unverified)
}
