package sim

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/miner"
	"github.com/iota-train/iota/role/validator"
	"github.com/iota-train/iota/sim/adversary"
)

// Machine is the machine of one miner or validator: its key and link last, its process comes and goes.
type Machine struct {
	sim    *Sim
	role   message.Role
	number int // from 1, in its role
	key    ed25519.PrivateKey
	public []byte
	// Blobs and messages queue on lanes of their own: messages are small, and a real connection lets them overtake.
	blobs, messages *transport.Duplex
	factor          float64 // of compute time
	cut             bool
	held            []func() // what arrives when the cut heals
	lies            []lie
	sybil           bool     // one of the many keys of an owner
	erred           bool     // it was ever made to misbehave, for once or for good
	saves           [][]byte // private states, one per install, newest last

	up       bool
	life     int // counts processes
	sessions int
	session  []byte
	worker   Worker
	bent     *adversary.Adversary // the worker's wrapping
	conn     *conn                // nil while it has none
	holding  bool                 // this session was welcomed before
	queues   [message.Urgencies][]*job
	busy     bool
	outbox   outbox
	uploaded uint64
	holds    []byte // hash of the weights at the start of the worker's epoch
	twice    int    // results that it will send twice
	leaving  bool
}

// Worker does a miner's tasks: the real miner or a stand-in, wrapped by an adversary.
type Worker interface{ adversary.Worker }

// Times of a machine.
const (
	heartbeatEvery = 5 * time.Second
	shortestPause  = 20 * time.Millisecond
	longestPause   = 5 * time.Second
)

func newMachine(s *Sim, role message.Role, number int) *Machine {
	seed := s.derive(names[role]+" key", number)
	m := &Machine{
		sim: s, role: role, number: number, key: ed25519.NewKeyFromSeed(seed[:]), factor: 1,
		blobs: transport.NewDuplex(s.config.Link), messages: transport.NewDuplex(s.config.Link),
	}
	m.public = m.key.Public().(ed25519.PublicKey)
	return m
}

var names = map[message.Role]string{message.Role_MINER: "miner", message.Role_VALIDATOR: "validator"}

// name is how transcripts call the machine.
func (m *Machine) name() string { return fmt.Sprintf("%s %d", names[m.role], m.number) }

// start begins a process.
func (m *Machine) start() {
	m.up, m.leaving = true, false
	m.life++
	m.newSession()
	m.dial(shortestPause)
	m.beat()
}

// newSession makes a worker that holds nothing but the private state of its last install.
func (m *Machine) newSession() {
	s := m.sim
	m.sessions++
	purpose := "session"
	if m.role == message.Role_VALIDATOR {
		purpose = "validator session"
	}
	id := s.derive(purpose, m.number<<20+m.sessions)
	m.session, m.holding, m.holds = id[:16], false, nil
	m.queues, m.outbox, m.uploaded = [message.Urgencies][]*job{}, outbox{}, 0
	w, err := m.newWorker()
	if err != nil {
		s.fail("%s: %v", m.name(), err)
		return
	}
	m.bent = adversary.New(s.config.Manifest, m.key, w)
	m.worker = m.bent
	for i := range m.lies {
		if err := m.begin(i); err != nil {
			s.fail("%s: %v", m.name(), err)
		}
	}
}

// newWorker makes the worker of the machine's role: a real one, or a stand-in.
func (m *Machine) newWorker() (Worker, error) {
	c := m.sim.config
	switch {
	case c.Text == nil:
		return newStandIn(c.Manifest, m.key, m.session), nil
	case m.role == message.Role_VALIDATOR:
		return validator.New(c.Manifest, m.key, m.session, c.Text, m.sim.engine)
	}
	w, err := miner.New(c.Manifest, m.key, m.session, c.Text, m.sim.engine)
	if err == nil && len(m.saves) > 0 {
		err = w.Restore(m.saves[len(m.saves)-1])
	}
	return w, err
}

// delay is how long news travel one way.
func (m *Machine) delay() time.Duration { return m.blobs.Up.Link.Delay }

// arrive does something at the time, unless a cut keeps it until it heals, or its process has ended.
func (m *Machine) arrive(at time.Duration, do func()) {
	life := m.life
	m.sim.at(at, func() {
		switch {
		case m.life != life:
		case m.cut:
			m.held = append(m.held, func() {
				if m.life == life {
					do()
				}
			})
		default:
			do()
		}
	})
}

// dial opens a connection and registers over it; without success it tries again, with growing pauses.
func (m *Machine) dial(pause time.Duration) {
	if !m.up || m.conn != nil {
		return
	}
	if !m.sim.hub.up || m.cut {
		life := m.life
		jittered := pause/2 + time.Duration(m.sim.dice.Int64N(int64(pause)))
		m.sim.after(jittered, func() {
			if m.life == life {
				m.dial(min(2*pause, longestPause))
			}
		})
		return
	}
	c := &conn{machine: m, open: true}
	m.conn, m.queues = c, [message.Urgencies][]*job{}
	m.tell(c, &message.Envelope{Kind: &message.Envelope_Register{Register: &message.Register{
		Session: m.session, Numerics: string(m.sim.engine.Numerics()), Holding: m.holding, AcksSeen: m.worker.AcksSeen(),
		Role: m.role,
	}}})
}

// tell sends a message to the hub.
func (m *Machine) tell(c *conn, e *message.Envelope) {
	at := m.messages.Up.Deliver(m.sim.now, len(message.Encode(e)))
	hub := m.sim.hub
	life := hub.life
	// What left the machine arrives even if its process ends meanwhile.
	var arrived func()
	arrived = func() {
		switch {
		case hub.life != life:
		case m.cut:
			m.held = append(m.held, arrived)
		default:
			hub.receive(c, e)
		}
	}
	m.sim.at(at, arrived)
}

// send brings an order to the machine.
func (m *Machine) send(c *conn, o *message.Order) {
	at := m.messages.Down.Deliver(m.sim.now, len(message.Encode(o)))
	m.arrive(at, func() {
		if m.up && m.conn == c {
			m.take(o)
		}
	})
}

// lost is the news that a connection ended.
func (m *Machine) lost(c *conn) {
	if m.conn != c {
		return
	}
	m.conn = nil
	m.dial(shortestPause)
}

// beat sends heartbeats as long as the process lives.
func (m *Machine) beat() {
	life := m.life
	m.sim.after(heartbeatEvery, func() {
		if !m.up || m.life != life || m.sim.hub.core.Finished {
			return
		}
		if m.conn != nil && m.conn.greeted {
			m.tell(m.conn, &message.Envelope{Kind: &message.Envelope_Heartbeat{Heartbeat: &message.Heartbeat{
				Session: m.session, Uploaded: m.uploaded}}})
		}
		m.beat()
	})
}

// take acts on an order that arrived.
func (m *Machine) take(o *message.Order) {
	switch kind := o.GetKind().(type) {
	case *message.Order_Finished:
		if m.leaving {
			m.sim.note("%s left", m.name())
		}
		m.end()
		return
	case *message.Order_Welcome:
		m.welcome(kind.Welcome)
		return
	case *message.Order_Refusal:
		if kind.Refusal.GetTask() == nil {
			m.sim.note("%s refused: %s", m.name(), kind.Refusal.GetReason())
			m.end()
			return
		}
	case *message.Order_Task:
		if m.outbox.did(kind.Task) {
			return
		}
	}
	m.enqueue(o)
}

// welcome sends again what the hub has not had. A log that cannot be continued ends the session.
func (m *Machine) welcome(w *message.Welcome) {
	if !m.outbox.rewind(w.GetLog(), m.sim.has) {
		m.sim.note("%s begins a new session: its log cannot be continued", m.name())
		m.life++ // what the old session left under way goes nowhere
		m.busy = false
		c := m.conn
		m.conn = nil
		m.hangUp(c)
		m.newSession()
		m.dial(shortestPause)
		m.beat()
		return
	}
	m.holding, m.conn.greeted = true, true
	m.flush()
}

// flush sends what waits in the outbox.
func (m *Machine) flush() {
	for m.conn != nil && m.conn.greeted {
		result := m.outbox.pop()
		if result == nil {
			return
		}
		e := &message.Envelope{Kind: &message.Envelope_Result{Result: result}}
		m.tell(m.conn, e)
		if m.twice > 0 {
			m.twice--
			m.tell(m.conn, e)
		}
	}
}

// hangUp ends a connection from the machine's side: the hub learns it after all that was sent before.
func (m *Machine) hangUp(c *conn) {
	if c == nil {
		return
	}
	at := m.messages.Up.Deliver(m.sim.now, 0)
	var arrived func()
	arrived = func() {
		if m.cut {
			m.held = append(m.held, arrived)
			return
		}
		m.sim.hub.drop(c)
	}
	m.sim.at(at, arrived)
}

// end is the end of the process.
func (m *Machine) end() {
	c := m.conn
	m.up, m.conn, m.busy = false, nil, false
	m.life++
	m.queues = [message.Urgencies][]*job{}
	m.hangUp(c)
}

// Leave has the machine ask to be let go. Its process ends when it is.
func (m *Machine) Leave() {
	if m.conn == nil || !m.conn.greeted {
		m.Kill() // nobody could hear it
		return
	}
	m.sim.note("%s asks to leave", m.name())
	m.leaving = true
	m.tell(m.conn, &message.Envelope{Kind: &message.Envelope_Heartbeat{Heartbeat: &message.Heartbeat{
		Session: m.session, Uploaded: m.uploaded, Leaving: true}}})
}

// Kill ends the machine's process, with all that it holds in memory.
func (m *Machine) Kill() {
	if m.up {
		m.sim.note("%s killed", m.name())
		m.end()
	}
}

// Revive starts a process again. It resumes the private state of the last install, or one older by that many installs.
func (m *Machine) Revive(old int) {
	if m.up {
		return
	}
	m.saves = m.saves[:max(0, len(m.saves)-old)]
	m.sim.note("%s back", m.name())
	m.start()
}

// Slow multiplies the machine's compute time from its next task on.
func (m *Machine) Slow(factor float64) { m.factor = factor }

// Cut parts the machine from the network for a time: nothing arrives until then, in either direction.
func (m *Machine) Cut(d time.Duration) {
	m.sim.note("%s cut off for %s", m.name(), d)
	m.cut = true
	m.sim.after(d, func() {
		m.cut = false
		held := m.held
		m.held = nil
		m.sim.note("%s reachable again", m.name())
		for _, do := range held {
			do()
		}
	})
}

// Disconnect breaks the machine's connection; its process lives on, and dials again after the time.
func (m *Machine) Disconnect(d time.Duration) {
	c := m.conn
	if c == nil {
		return
	}
	m.sim.note("%s disconnected for %s", m.name(), d)
	m.conn = nil
	m.hangUp(c)
	life := m.life
	m.sim.after(d, func() {
		if m.life == life {
			m.dial(shortestPause)
		}
	})
}

// Twice makes the machine send its next n results twice.
func (m *Machine) Twice(n int) { m.twice += n }
