package sim

import (
	"fmt"
	"math"

	"github.com/iota-train/iota/protocol/message"
)

// Sybil lets one owner join with n new keys, a machine each. They are numbered like all others. Equal commands add to
// the keys of the same owner; there is one owner in a simulation.
func (s *Sim) Sybil(n int, factor float64, l lie) error {
	for range n {
		m := newMachine(s, message.Role_MINER, len(s.machines)+1)
		m.sybil = true
		s.machines = append(s.machines, m)
		m.Slow(factor)
		m.start()
		if l.kind == "" {
			continue
		}
		if err := m.Lie(l.kind, l.rate); err != nil {
			return err
		}
	}
	return nil
}

// Rejoin lets the owner of a machine that was withdrawn come back with a new key, and misbehave as before. To the run it
// is somebody new: the machine has another number from now on, and nothing of its state.
func (m *Machine) Rejoin() error {
	s := m.sim
	if m.role != message.Role_MINER || m.up {
		return fmt.Errorf("%s is at work: only a miner that was withdrawn or killed comes back with a new key", m.name())
	}
	m.sybil = true
	again := newMachine(s, m.role, len(s.machines)+1)
	again.sybil = true
	s.machines = append(s.machines, again)
	s.note("%s comes back with a new key, as %s", m.name(), again.name())
	again.Slow(m.factor)
	again.start()
	for _, l := range m.lies {
		if err := again.Lie(l.kind, l.rate, l.with...); err != nil {
			return err
		}
	}
	return nil
}

// sybils shows what all keys of the owner have together, and what the others are paid per unit of score.
func (c *Scenario) sybils() []string {
	var all, worst, out, left int
	var batches, most uint64
	var p struct{ earned, escrow, slashed, probation uint64 }
	least, highest, others := math.Inf(1), 0.0, 0
	probation := uint64(c.sim.config.Manifest.GetRules().GetProbation())
	for i, m := range c.sim.View().Miners {
		pay := m.Pay
		if !c.sim.machines[i].sybil {
			others++
			if got := float64(pay.Earned + pay.Escrow); pay.Score > 0 {
				least, highest = min(least, got/pay.Score), max(highest, got/pay.Score)
			}
			continue
		}
		all++
		done := probation - pay.Left
		batches, most = batches+done, max(most, done)
		if pay.Left > 0 {
			left++
		}
		if m.State == "barred" {
			out++
		}
		if pay.Earned > 0 {
			worst++
		}
		p.earned, p.escrow = p.earned+pay.Earned, p.escrow+pay.Escrow
		p.slashed, p.probation = p.slashed+pay.Slashed, p.probation+pay.Probation
	}
	lines := []string{
		fmt.Sprintf("one owner: %d keys, %d withdrawn, %d in probation with %d micro-batches of it done, %d at most by one key", all, out, left, batches, most),
		fmt.Sprintf("together: earned %d by %d keys, escrow %d, slashed %d, burned in probation %d", p.earned, worst, p.escrow, p.slashed, p.probation),
	}
	if highest > 0 {
		lines = append(lines, fmt.Sprintf("%d others: %.0f to %.0f per unit of score", others, least, highest))
	}
	return lines
}
