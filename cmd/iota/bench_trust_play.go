package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/iota-train/iota/role/orchestrator"
	"github.com/iota-train/iota/sim"
	"github.com/iota-train/iota/sim/adversary"
)

// trustOutcome is what became of one network.
type trustOutcome struct {
	caught             int    // epochs until the first cheater was withdrawn, 0 if none was
	by                 string // what found it
	earned             float64
	fair               float64   // mean pay of an honest miner
	replayed           []float64 // micro-batches of each honest miner of the last stage that audits passed
	loss               float64
	wronged            int
	audits, unverified uint64
	stuck              bool
}

// judge reports whether the cheater is a validator.
func (c trustCell) judge() bool { return adversary.OfValidators(c.kind) }

// playAll plays a cell's networks, on all cores.
func (b *trustBench) playAll(ctx context.Context, cell trustCell) ([]trustOutcome, error) {
	outcomes, errs := make([]trustOutcome, b.seeds), make([]error, b.seeds)
	next := make(chan int)
	var workers sync.WaitGroup
	for range cores {
		workers.Go(func() {
			for i := range next {
				outcomes[i], errs[i] = b.play(cell, b.from+uint64(i))
			}
		})
	}
	for i := 0; i < b.seeds && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("%s, seed %d: %w", cell.name(), b.from+uint64(i), err)
		}
	}
	return outcomes, nil
}

// cheaters are the numbers of a cell's cheating miners, once each has its stage: the first in the last stage, since in the
// first a backward pass gives nothing away that could be false. Colluders are two of one stage.
func (c trustCell) cheaters(v orchestrator.View) []int {
	switch {
	case c.kind == "" || c.judge():
		return nil
	}
	first := slices.IndexFunc(v.Miners, func(m orchestrator.MinerView) bool { return m.Stage == len(v.Stages)-1 })
	if c.kind == "collude-reduce" {
		for _, m := range v.Miners[first+1:] {
			if m.Stage == v.Miners[first].Stage {
				return []int{first + 1, m.Number}
			}
		}
	}
	return []int{first + 1}
}

// play plays one network, epoch by epoch.
func (b *trustBench) play(cell trustCell, seed uint64) (trustOutcome, error) {
	var o trustOutcome
	c := sim.Scenario{Seed: &seed}
	defer c.Close()
	commands := []string{b.network(cell)}
	for v := range b.validatorsOf(cell) {
		commands = append(commands, fmt.Sprintf("slow validator=%d factor=%v", v+1, 1/b.speed))
	}
	for _, command := range append(commands, "run until=phase:Training") {
		if _, err := c.Do(command); err != nil {
			return o, err
		}
	}
	cheaters := cell.cheaters(c.Sim().View())
	for _, command := range cell.lies(cheaters) {
		if _, err := c.Do(command); err != nil {
			return o, err
		}
	}
	for epoch := 1; epoch <= b.epochs && o.caught == 0; epoch++ {
		if _, err := c.Do(fmt.Sprintf("run until=epoch:%d max=30m", epoch)); err != nil {
			return o, err
		}
		o.look(c.Sim().View(), cell, cheaters, epoch)
	}
	if _, err := c.Do("run until=end max=60m"); err != nil {
		return o, err
	}
	v := c.Sim().View()
	o.look(v, cell, cheaters, b.epochs)
	o.finish(v, cell, cheaters)
	return o, nil
}

// validatorsOf is the number of a cell's validators.
func (b *trustBench) validatorsOf(cell trustCell) int {
	if cell.judge() {
		return b.validators + 1
	}
	return b.validators
}

// network is the command for a cell's network.
func (b *trustBench) network(cell trustCell) string {
	miners := b.miners
	if cell.kind == "" || cell.judge() {
		miners--
	}
	return fmt.Sprintf("network real stages=%d miners=%d validators=%d epochs=%d h=%d c=%d audit=%v shards=%v window=%d aggregate=%s heldout=64",
		b.stages, miners, b.validatorsOf(cell), b.epochs, b.innerSteps, b.commitEvery, b.auditShare, b.shardShare, b.challengeWindow, b.aggregate)
}

// lies are the commands that make the cheaters cheat, from their first task on.
func (c trustCell) lies(cheaters []int) []string {
	if c.judge() {
		return []string{fmt.Sprintf("adversary validator=1 kind=%s rate=%v", c.kind, c.rate)}
	}
	var list []string
	for i, m := range cheaters {
		if c.kind == "slow" { // in virtual time
			list = append(list, fmt.Sprintf("slow miner=%d factor=10", m))
			continue
		}
		command := fmt.Sprintf("adversary miner=%d kind=%s rate=%v", m, c.kind, c.rate)
		if len(cheaters) == 2 {
			command += fmt.Sprintf(" with=%d", cheaters[1-i])
		}
		list = append(list, command)
	}
	return list
}

// look notes whether a cheater is withdrawn.
func (o *trustOutcome) look(v orchestrator.View, cell trustCell, cheaters []int, epoch int) {
	if cell.judge() && v.Validators[0].State == "barred" && o.caught == 0 {
		o.caught, o.by = epoch, "audit"
	}
	for _, n := range cheaters {
		if m := v.Miners[n-1]; m.Barred != "" && o.caught == 0 {
			o.caught, o.by = epoch, foundBy(m)
		}
	}
}

// foundBy says what a miner was withdrawn for.
func foundBy(m orchestrator.MinerView) string {
	switch {
	case m.Failed > 0:
		return "audit"
	case strings.Contains(m.Barred, "finite"):
		return "not finite"
	}
	return "claims"
}

// finish takes in the state at the end.
func (o *trustOutcome) finish(v orchestrator.View, cell trustCell, cheaters []int) {
	o.loss, o.stuck, o.unverified = v.Counters.LossEval, !v.Finished, v.Audits.Unverified
	o.audits = v.Audits.Segments + v.Audits.Shards
	honest := 0.0
	for _, m := range v.Miners {
		pay := float64(m.Pay.Earned + m.Pay.Escrow)
		if slices.Contains(cheaters, m.Number) {
			o.earned += pay
			continue
		}
		o.fair += pay
		if m.Stage == len(v.Stages)-1 {
			o.replayed = append(o.replayed, m.Replayed)
		}
		honest++
		if m.Failed > 0 || m.Barred != "" {
			o.wronged++
		}
	}
	o.fair /= max(1, honest)
	for i, w := range v.Validators {
		if cell.judge() && i == 0 {
			continue
		}
		if w.State == "barred" {
			o.wronged++
		}
	}
	for _, p := range v.Ledger.Validators {
		if cell.judge() && p.ID == v.Validators[0].ID {
			o.earned += float64(p.Pay.Earned + p.Pay.Escrow)
		}
	}
}
