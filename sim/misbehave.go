package sim

import (
	"crypto/ed25519"
	"fmt"

	"github.com/iota-train/iota/protocol/message"
)

// lie is a lasting misbehaviour.
type lie struct {
	kind string
	rate float64
	with []*Machine // accomplices
}

// Err makes the machine misbehave in its next n tasks of the given kinds, of those that the misbehaviour concerns if
// none is given.
func (m *Machine) Err(kind string, n int, seed uint64, tasks ...message.TaskKind) error {
	m.erred = true
	if m.bent == nil {
		return nil
	}
	return m.bent.Times(kind, n, seed, tasks...)
}

// Lie makes the machine misbehave for good, together with accomplices if the kind needs any.
func (m *Machine) Lie(kind string, rate float64, with ...*Machine) error {
	m.erred = true
	m.lies = append(m.lies, lie{kind, rate, with})
	if m.bent == nil {
		return nil
	}
	return m.begin(len(m.lies) - 1)
}

// begin has the present worker tell the i-th lie.
func (m *Machine) begin(i int) error {
	l := m.lies[i]
	if len(l.with) > 0 {
		var keys [][]byte
		for _, other := range l.with {
			keys = append(keys, other.key.Public().(ed25519.PublicKey))
		}
		m.bent.Conspire(keys...)
	}
	return m.bent.Always(l.kind, l.rate, m.sim.config.Seed<<16+uint64(m.number)<<8+uint64(i))
}

// nan makes the machine produce a number that is not finite in its next n tasks of a kind. own: in its own memory, so
// that it notices; the others are sent to whoever comes next.
func (m *Machine) nan(kind string, n int) error {
	what, tasks := "nan", []message.TaskKind(nil)
	switch kind {
	case "gradient":
		tasks = []message.TaskKind{message.TaskKind_LOSS, message.TaskKind_BACKWARD}
	case "activation":
		tasks = []message.TaskKind{message.TaskKind_FORWARD}
	case "share":
		tasks = []message.TaskKind{message.TaskKind_SHARE}
	case "own":
		what, tasks = "fault", []message.TaskKind{message.TaskKind_FORWARD, message.TaskKind_LOSS, message.TaskKind_BACKWARD}
	default:
		return fmt.Errorf("kind %q: use gradient, activation, share or own", kind)
	}
	return m.Err(what, n, m.sim.config.Seed, tasks...)
}
