package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/iota-train/iota/role/orchestrator"
	"github.com/iota-train/iota/sim"
)

// trustOutcome is what became of one network.
type trustOutcome struct {
	caught  int    // epochs until the first cheater was withdrawn, 0 if none was
	by      string // what found it
	earned  float64
	fair    float64 // mean pay of an honest miner
	loss    float64
	wronged int
	stuck   bool
}

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

// cheaters are the numbers of a cell's cheating miners. Colluders are two of one stage: stages are taken in turn.
func (b *trustBench) cheaters(cell trustCell) []int {
	switch cell.kind {
	case "":
		return nil
	case "collude-reduce":
		return []int{1, 1 + b.stages}
	}
	return []int{1}
}

// play plays one network, epoch by epoch.
func (b *trustBench) play(cell trustCell, seed uint64) (trustOutcome, error) {
	var o trustOutcome
	c := sim.Scenario{Seed: &seed}
	defer c.Close()
	miners, cheaters := b.miners, b.cheaters(cell)
	if cell.kind == "" {
		miners--
	}
	commands := []string{fmt.Sprintf("network real stages=%d miners=%d validators=%d epochs=%d audit=%v window=%d aggregate=%s heldout=64 unit=10ms",
		b.stages, miners, b.validators, b.epochs, b.auditShare, b.challengeWindow, b.aggregate)}
	for _, m := range cheaters {
		commands = append(commands, fmt.Sprintf("adversary miner=%d kind=%s rate=%v", m, cell.kind, cell.rate))
	}
	for _, command := range commands {
		if _, err := c.Do(command); err != nil {
			return o, err
		}
	}
	for epoch := 1; epoch <= b.epochs && o.caught == 0; epoch++ {
		if _, err := c.Do(fmt.Sprintf("run until=epoch:%d max=30m", epoch)); err != nil {
			return o, err
		}
		o.look(c.Sim().View(), cheaters, epoch)
	}
	if _, err := c.Do("run until=end max=60m"); err != nil {
		return o, err
	}
	v := c.Sim().View()
	o.look(v, cheaters, b.epochs)
	o.finish(v, cheaters)
	return o, nil
}

// look notes whether a cheater is withdrawn.
func (o *trustOutcome) look(v orchestrator.View, cheaters []int, epoch int) {
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
func (o *trustOutcome) finish(v orchestrator.View, cheaters []int) {
	o.loss, o.stuck = v.Counters.LossEval, !v.Finished
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
}
