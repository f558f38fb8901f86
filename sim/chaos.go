package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// chaos draws disturbances from the seed.
type chaos struct {
	sim  *Sim
	dice *rand.Rand
}

// Chaos disturbs the network n times, at random moments up to pause apart, then heals what can be healed: the dead are
// back, the slow as fast as the others. What it does follows from the seed alone.
func (s *Sim) Chaos(n int, pause time.Duration) {
	c := chaos{s, rand.New(rand.NewChaCha8(s.derive("chaos", n)))}
	for range n {
		s.Run(s.Finished, time.Duration(c.dice.Int64N(int64(pause))))
		if s.err != nil || s.Finished() {
			return
		}
		if n := len(s.validators); n > 0 && c.dice.IntN(3) == 0 {
			c.disturbValidator(s.validators[c.dice.IntN(n)])
			continue
		}
		c.disturb(s.machines[c.dice.IntN(len(s.machines))])
	}
	for _, m := range slices.Concat(s.machines, s.validators) {
		m.Slow(1)
		m.Revive(0)
	}
}

// disturbValidator does to a validator what happens to miners.
func (c chaos) disturbValidator(v *Machine) {
	short := time.Duration(c.dice.Int64N(int64(3 * time.Second)))
	switch c.dice.IntN(6) {
	case 0, 1:
		if v.up {
			v.Kill()
			return
		}
		v.Revive(0)
	case 2:
		if len(c.sim.validators) < 4 {
			c.sim.JoinValidators(1)
		}
	case 3:
		v.Slow([]float64{0.5, 3, 30, 300}[c.dice.IntN(4)])
	case 4:
		if !v.cut {
			v.Cut(short)
		}
	case 5:
		v.Disconnect(short)
	}
}

// disturb does one of the things that happen to networks.
func (c chaos) disturb(m *Machine) {
	s := c.sim
	short := time.Duration(c.dice.Int64N(int64(3 * time.Second)))
	switch c.dice.IntN(13) {
	case 0, 1:
		m.Kill()
	case 2, 3:
		for _, other := range s.machines {
			if !other.up {
				other.Revive(c.dice.IntN(2))
				return
			}
		}
		m.Kill()
	case 4:
		if len(s.machines) < 12 {
			s.Join(1)
		}
	case 5:
		m.Slow([]float64{0.5, 3, 30, 300}[c.dice.IntN(4)])
	case 6:
		if !m.cut {
			m.Cut(short)
		}
	case 7:
		m.Disconnect(short)
	case 8:
		s.Restart([]time.Duration{0, short, time.Hour}[c.dice.IntN(3)])
	case 9, 10:
		c.lie(m)
	case 11:
		m.Twice(1 + c.dice.IntN(5))
	case 12:
		m.Slow(1)
	}
}

// lie lets a machine produce some results that are wrong or not finite.
func (c chaos) lie(m *Machine) {
	kinds := []struct {
		name  string
		tasks []message.TaskKind
	}{
		{"nan", nil}, {"fault", nil}, {"bad-reduce", nil}, {"drop", nil}, {"zero", nil}, {"stale", nil},
		{"nan", []message.TaskKind{message.TaskKind_SHARE}}, {"false-nan", nil}, {"false-missing", nil}, {"false-unfit", nil},
	}
	k := kinds[c.dice.IntN(len(kinds))]
	c.sim.note("miner %d will err: %s", m.number, k.name)
	if err := m.Err(k.name, 1+c.dice.IntN(3), c.dice.Uint64(), k.tasks...); err != nil {
		c.sim.fail("%v", err)
	}
}
