package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/protocol/message"
)

// Worker does a miner's or a validator's tasks: the real one, or one that misbehaves. One goroutine at a time uses it. An
// error means that an order makes no sense to it and changed nothing; what goes wrong with the work is part of the result.
type Worker interface {
	// Do does one task. An input that could not be had is nil. The outputs are the driver's to keep. A nil result says
	// that the order was ignored.
	Do(t *message.Task, inputs [][]byte) (*message.Result, []message.Blob, error)
	// Acknowledge lets a gradient into the sum and returns the results of the inner step that this may set off.
	Acknowledge(a *message.Ack) ([]*message.Result, error)
	// Drop frees what is held for an attempt.
	Drop(id *message.TaskID, attempt uint32)
	// AcksSeen is the number of the last acknowledgement of this epoch.
	AcksSeen() uint64
	// Save returns the private state that a restarted miner resumes.
	Save() []byte
}

// MinerConfig is what a Miner needs.
type MinerConfig struct {
	// Dial opens a connection on which the orchestrator knows the miner's key.
	Dial  func(ctx context.Context) (transport.Conn, error)
	Blobs Blobs
	Gate  Gate
	// Start makes the worker of a session: 16 bytes, new for every worker.
	Start    func(session []byte) (Worker, error)
	Numerics string
	Role     message.Role // a validator is driven like a miner: it gets other tasks
	// Save, if set, keeps a worker's private state, after every install.
	Save func(state []byte) error
	// Joined, if set, is called once, when the orchestrator took the miner in.
	Joined func()
	Log    *slog.Logger
}

// Miner drives one worker, that of a miner or of a validator.
type Miner struct {
	MinerConfig
	session  []byte
	holding  bool // this session was welcomed before
	worker   Worker
	acksSeen atomic.Uint64
	uploaded atomic.Uint64
	orders   *orders
	outbox   *outbox
	uploads  chan upload
	labours  labours
	away     bool          // its connection was lost
	leave    chan struct{} // closed by Leave
	leaving  sync.Once
}

// upload is a result whose outputs are still to be stored.
type upload struct {
	result  *message.Result
	outputs []message.Blob
	durable bool
}

// NewMiner returns a miner that is not connected yet.
func NewMiner(c MinerConfig) *Miner { return &Miner{MinerConfig: c, leave: make(chan struct{})} }

// Leave asks the orchestrator to let the miner go: Run returns when it has handed over what it holds, or when its
// connection ends before that. How long it may take is for ctx to say.
func (m *Miner) Leave() { m.leaving.Do(func() { close(m.leave) }) }

// leaves reports whether the miner was told to leave.
func (m *Miner) leaves() bool {
	select {
	case <-m.leave:
		return true
	default:
		return false
	}
}

// errLogLost says that the orchestrator's view of this session's log cannot be continued.
var errLogLost = errors.New("the orchestrator does not know this session's log")

// Run joins the run and works until the run is finished, which is no error, or ctx ends. A lost connection is dialled
// again, with growing pauses.
func (m *Miner) Run(ctx context.Context) error {
	for {
		err := m.live(ctx)
		if !errors.Is(err, errLogLost) {
			return err
		}
		m.Log.Warn("a new session begins", "err", err)
	}
}

// live is one session.
func (m *Miner) live(ctx context.Context) error {
	m.session = make([]byte, 16)
	if _, err := rand.Read(m.session); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	var err error
	if m.worker, err = m.Start(m.session); err != nil {
		return fmt.Errorf("start miner: %w", err)
	}
	m.holding = false
	ctx, cancel := context.WithCancelCause(ctx)
	m.orders, m.outbox, m.uploads = newOrders(ctx, m.fetch), newOutbox(), make(chan upload, 8)
	m.acksSeen.Store(0)
	var tasks sync.WaitGroup
	fail := func(err error) {
		if err != nil {
			cancel(err)
		}
	}
	tasks.Go(func() { fail(m.work(ctx)) })
	tasks.Go(func() { fail(m.upload(ctx)) })
	err = m.connect(ctx)
	cancel(err)
	tasks.Wait()
	m.orders.tasks.Wait()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return err
}

// connect keeps a connection until the run is finished.
func (m *Miner) connect(ctx context.Context) error {
	const shortest, longest = 20 * time.Millisecond, time.Second
	pause := shortest
	for {
		began := time.Now()
		done, err := m.connection(ctx)
		if done || ctx.Err() != nil || errors.Is(err, ErrRefused) || errors.Is(err, transport.ErrDenied) || errors.Is(err, errLogLost) {
			return err
		}
		m.labours.lost.Add(1)
		if m.leaves() {
			return nil
		}
		if !m.away {
			m.Log.Info("connection lost: trying until it is back", "err", err)
			m.away = true
		}
		if time.Since(began) > longest {
			pause = shortest
		}
		if err := m.pause(ctx, pause/2+time.Duration(mrand.Int64N(int64(pause)))); err != nil {
			return err
		}
		pause = min(2*pause, longest)
	}
}

// pause waits, but not once the miner is to leave.
func (m *Miner) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-m.leave:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connection is one connection, from its registration to its end. It returns true when the run is finished.
func (m *Miner) connection(ctx context.Context) (bool, error) {
	conn, err := m.Dial(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	register := &message.Register{Session: m.session, Numerics: m.Numerics, Holding: m.holding, AcksSeen: m.acksSeen.Load(), Role: m.Role}
	if err := m.tell(ctx, conn, &message.Envelope{Kind: &message.Envelope_Register{Register: register}}); err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	tasks.Go(func() { m.beat(ctx, conn) })
	defer m.labours.connected.Store(false)
	m.orders.clear()
	for {
		b, err := conn.Recv(ctx)
		if err != nil {
			return false, err
		}
		var order message.Order
		if err := message.Decode(b, &order); err != nil {
			return false, err
		}
		switch kind := order.GetKind().(type) {
		case *message.Order_Finished:
			return true, nil
		case *message.Order_Welcome:
			if err := m.welcome(ctx, kind.Welcome); err != nil {
				return false, err
			}
			tasks.Go(func() {
				if m.outbox.send(ctx, conn) != nil {
					conn.Close()
				}
			})
		default:
			if err := m.take(&order); err != nil {
				return false, err
			}
		}
	}
}

// take queues an order, but for a task whose result is on its way already.
func (m *Miner) take(order *message.Order) error {
	if r := order.GetRefusal(); r != nil && r.GetTask() == nil {
		return fmt.Errorf("%w: %s", ErrRefused, r.GetReason())
	}
	if t := order.GetTask(); t != nil && m.outbox.did(t) {
		return nil
	}
	return m.orders.push(order)
}

// welcome prepares to send again what the orchestrator has not had. A result whose outputs are gone cannot be.
func (m *Miner) welcome(ctx context.Context, w *message.Welcome) error {
	refs, ok := m.outbox.rewind(w.GetLog())
	if !ok {
		return errLogLost
	}
	for _, ref := range refs {
		hash, ok := hashOf(ref)
		if !ok {
			return errLogLost
		}
		if ok, err := m.Blobs.Has(ctx, hash); err != nil {
			return err
		} else if !ok {
			return errLogLost
		}
	}
	m.holding = true
	m.labours.connected.Store(true)
	if m.away {
		m.Log.Info("connected again")
		m.away = false
	}
	if m.Joined != nil {
		m.Joined()
		m.Joined = nil
	}
	return nil
}

// beat sends heartbeats. Those that say that the miner leaves come at once, and again: the orchestrator passes over one that
// follows another too soon.
func (m *Miner) beat(ctx context.Context, conn transport.Conn) {
	for leave, every := m.leave, heartbeatEvery; ; {
		timer := time.NewTimer(every)
		select {
		case <-timer.C:
		case <-leave:
			leave, every = nil, heartbeatEvery/4
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
		beat := &message.Heartbeat{Session: m.session, Uploaded: m.uploaded.Load(), Leaving: m.leaves()}
		if m.tell(ctx, conn, &message.Envelope{Kind: &message.Envelope_Heartbeat{Heartbeat: beat}}) != nil {
			return
		}
	}
}

func (m *Miner) tell(ctx context.Context, conn transport.Conn, e *message.Envelope) error {
	return conn.Send(ctx, message.Encode(e))
}
