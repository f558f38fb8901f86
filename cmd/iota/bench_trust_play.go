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
	chances            []float64 // by the law, of each epoch until the first cheater was found; for a validator of each answer
	audited            float64
	loss               float64
	wronged            int
	audits, unverified uint64
	stuck              bool
	cut                bool // not played to the end
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
	law, follows := b.law(cell, c.Sim().Chance)
	for epoch := 1; epoch <= b.epochs && o.caught == 0; epoch++ {
		if _, err := c.Do("run until=phase:Installing max=30m"); err != nil {
			return o, err
		}
		if follows {
			o.chances = append(o.chances, law.epoch(epoch-1, logs(c.Sim(), cheaters)))
		}
		if _, err := c.Do(fmt.Sprintf("run until=epoch:%d max=30m", epoch)); err != nil {
			return o, err
		}
		o.look(c.Sim().View(), cell, cheaters, epoch)
	}
	if o.cut = b.untilFound && o.caught > 0; !o.cut {
		if _, err := c.Do("run until=end max=60m"); err != nil {
			return o, err
		}
		o.stuck = !c.Sim().View().Finished
	}
	v := c.Sim().View()
	o.look(v, cell, cheaters, b.epochs)
	o.finish(v, cell, cheaters)
	return o, nil
}

// logs are what an epoch's draw is over for the first cheater: its log, or, if it was withdrawn and has only a part of one,
// those of the honest miners of its stage.
func logs(s *sim.Sim, cheaters []int) (list [][]orchestrator.Prospect) {
	v := s.View()
	if n := cheaters[0]; v.Miners[n-1].Barred == "" {
		return append(list, s.Prospects(n))
	}
	for _, m := range v.Miners {
		if m.Stage == v.Miners[cheaters[0]-1].Stage && m.Barred == "" {
			list = append(list, s.Prospects(m.Number))
		}
	}
	return list
}

// law is what a cell's cheating follows, if it falsifies anything of a miner's.
func (b *trustBench) law(cell trustCell, chance func(weight, suspicion float64) float64) (p *prospect, follows bool) {
	law, follows := cheatLaws[cell.kind]
	p = &prospect{law: law, kind: cell.kind, rate: cell.rate, shardShare: b.shardShare, chance: chance}
	p.start()
	return p, follows
}

// first is how many epochs pass before a cell's first false act: who copies has nothing to give in the first one.
func (c trustCell) first() int {
	if c.kind == "copy" {
		return 1
	}
	return 0
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
	o.loss, o.unverified = v.Counters.LossEval, v.Audits.Unverified
	o.audits = v.Audits.Segments + v.Audits.Shards
	o.audited = ratio(v.Audits.Drawn, v.Audits.Work)
	o.found(v, cell, cheaters)
	honest := 0.0
	for _, m := range v.Miners {
		pay := float64(m.Pay.Earned + m.Pay.Escrow)
		if slices.Contains(cheaters, m.Number) {
			o.earned += pay
			continue
		}
		o.fair += pay
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

// found ends the chances with the epoch whose cheating was found: a verdict says which, and it may have come later.
func (o *trustOutcome) found(v orchestrator.View, cell trustCell, cheaters []int) {
	if cell.judge() {
		w := v.Validators[0]
		for range w.Replays + uint64(min(1, o.caught)) {
			o.chances = append(o.chances, cell.rate)
		}
		return
	}
	for _, e := range v.Evidence {
		if slices.Contains(cheaters, e.Miner) {
			o.chances = o.chances[:min(len(o.chances), int(e.Epoch)+1)]
			return
		}
	}
}
