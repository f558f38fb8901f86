package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// HubConfig is what a Hub needs. The journal must hold a genesis.
type HubConfig struct {
	Journal Journal
	Blobs   HubBlobs
	Ledger  string // path of the file that keeps the ledger; "" for none
	Log     *slog.Logger
	// Grace is how old a blob must be that nothing names before it is removed; 0 for the default.
	Grace time.Duration
}

// Hub drives the orchestrator of one run. Serve runs it; the other methods may be called by many goroutines.
type Hub struct {
	HubConfig
	events chan arrival
	stop   chan bool
	peers  map[string]*peer // by key; owned by the goroutine of Serve

	mu       sync.Mutex // guards the machine against readers, and doomed and lacking
	machine  *machine
	doomed   map[store.Hash]bool // blobs that are about to be deleted: no receipt may name one
	lacking  error               // why the run waits for room, nil if it does not
	offers   map[store.Hash]bool // the blobs of the run's data, which always stay
	sweeping chan struct{}       // holds a token when there is something to delete

	base    time.Duration // run time when this process took up the run
	started time.Time
	last    time.Time // of the last event

	waiting    bool            // for room in the store
	waited     time.Time       // since when
	standstill time.Duration   // for which this process waited so far
	hurry      context.Context // ends with Stop: nothing is waited for any more
	hasten     context.CancelFunc

	epoch    uint64 // of the newest snapshot
	snapshot time.Duration
	previous uint64 // seq of the snapshot before the newest one
	archived uint64

	ledger *ledgerFile // nil if the ledger is not kept
	pages  [][]byte    // of the ledger, of events that are not durable yet

	vitals vitals
}

// arrival is an event on its way to the core. A nil event says that the peer's connection ended.
type arrival struct {
	from    *peer
	event   *message.Event
	receipt *message.Receipt // of a result
}

// quiet reports whether the event can wait a little, as it sets off nothing that anybody waits for.
func (a arrival) quiet() bool {
	return a.receipt.GetTask().GetKind() == message.TaskKind_STEP || a.event.GetHeartbeat() != nil
}

// OpenHub takes up the run of a journal where its last event left it.
func OpenHub(c HubConfig) (*Hub, error) {
	m, err := resume(c.Journal)
	if err != nil {
		return nil, err
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	h := &Hub{
		doomed: map[store.Hash]bool{}, offers: map[store.Hash]bool{}, sweeping: make(chan struct{}, 1),
		HubConfig: c, events: make(chan arrival, maxEvents), stop: make(chan bool, 1), peers: map[string]*peer{},
		machine: m, base: m.now, epoch: m.core.Epoch, snapshot: m.now, archived: m.seq,
	}
	h.hurry, h.hasten = context.WithCancel(context.Background())
	for _, ref := range m.manifest.GetData().GetBlobs() {
		if hash, ok := hashOf(ref); ok {
			h.offers[hash] = true
		}
	}
	h.doom()
	return h, h.keepLedger()
}

// View returns what the run looks like now.
func (h *Hub) View() orchestrator.View {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.machine.core.View()
	h.shortage(&v)
	return v
}

// Chain returns the last link of the chain.
func (h *Hub) Chain() [32]byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machine.chain
}

// Checkpoints returns the hash of every stage's last verified checkpoint, nil for initial weights.
func (h *Hub) Checkpoints() [][]byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	var hashes [][]byte
	for _, s := range h.machine.core.Stages {
		var hash []byte
		if s.Checkpoint != nil {
			hash = append(hash, s.Checkpoint.Hash...)
		}
		hashes = append(hashes, hash)
	}
	return hashes
}

// Stop asks for the end of the run: after the running epoch, or at once. Serve returns when it is reached.
func (h *Hub) Stop(atOnce bool) {
	h.hasten()
	select {
	case h.stop <- atOnce:
	default:
	}
}

// Serve accepts connections and runs the core until the run is finished or ctx ends. On an error, of the journal for
// instance, nothing that depends on unwritten events has left.
func (h *Hub) Serve(ctx context.Context, l transport.Listener) error {
	serving, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	h.started, h.last = time.Now(), time.Now()
	h.vitals.beat(0)
	h.vitals.serving.Store(true)
	defer h.vitals.serving.Store(false)
	if h.machine.seq > 0 {
		if err := h.commit(serving, []arrival{{event: &message.Event{Kind: &message.Event_Restarted{Restarted: &message.Restarted{}}}}}); err != nil {
			return err
		}
	}
	tasks.Go(func() { h.accept(serving, &tasks, l) })
	tasks.Go(func() { h.keepHouse(serving) })
	err := h.loop(serving)
	h.dismiss()
	return err
}

func (h *Hub) loop(ctx context.Context) error {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for !h.machine.core.Finished {
		batch, err := h.collect(ctx, ticker.C)
		if err == nil {
			err = h.commit(ctx, batch)
		}
		if err != nil {
			return err
		}
		h.vitals.beat(len(h.peers))
	}
	return h.keepSnapshot()
}

// Suspend writes what makes the next start a short one, after Serve was ended by its context.
func (h *Hub) Suspend() error { return h.keepSnapshot() }

// collect waits for an event and returns it with those that wait behind it.
func (h *Hub) collect(ctx context.Context, tick <-chan time.Time) ([]arrival, error) {
	var batch []arrival
	events := h.events
	if h.blocked() {
		events = nil
	}
	select {
	case a := <-events:
		batch = append(batch, a)
	case atOnce := <-h.stop:
		batch = append(batch, arrival{event: &message.Event{Kind: &message.Event_Stop{Stop: &message.Stop{AtOnce: atOnce}}}})
	case <-tick:
		if !h.waiting && time.Since(h.last) >= tickEvery/2 {
			batch = append(batch, arrival{event: &message.Event{Kind: &message.Event_Tick{Tick: &message.Tick{}}}})
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return h.gather(ctx, batch), nil
}

// gather adds what waits behind the first event. A group of quiet events alone is held back for a moment: what others
// wait for is then not kept waiting by it, but made durable together with it.
func (h *Hub) gather(ctx context.Context, batch []arrival) []arrival {
	const hold = 20 * time.Millisecond
	quiet := len(batch) > 0 && batch[0].quiet()
	timer := time.NewTimer(hold)
	defer timer.Stop()
	for len(batch) > 0 && len(batch) < maxBatch {
		var a arrival
		select {
		case a = <-h.events:
		default:
			if !quiet {
				return batch
			}
			select {
			case a = <-h.events:
			case <-timer.C:
				return batch
			case <-ctx.Done():
				return batch
			}
		}
		batch = append(batch, a)
		quiet = quiet && a.quiet()
	}
	return batch
}

// commit takes a group of events into the core, makes them durable together, and then lets their orders leave.
func (h *Hub) commit(ctx context.Context, batch []arrival) error {
	var records []journal.Record
	var out []*message.Outbound
	now := h.runTime()
	h.mu.Lock()
	for _, a := range batch {
		for _, event := range h.admit(ctx, a) {
			r, sent, err := h.machine.step(now, event)
			if err != nil {
				h.Log.Warn("event refused", "miner", message.Short(event.GetMiner()), "err", err)
				a.from.close()
				continue
			}
			h.noteRefusals(sent)
			records, out = append(records, r), append(out, sent...)
		}
	}
	h.mu.Unlock()
	if len(records) == 0 {
		return nil
	}
	h.last = time.Now()
	if err := h.patiently(ctx, func() error { return h.Journal.Append(records) }); err != nil {
		return fmt.Errorf("journal %d events: %w", len(records), err)
	}
	h.vitals.committed(h.machine.seq, len(records), time.Since(h.last))
	if err := h.writeLedger(ctx); err != nil {
		return err
	}
	for _, o := range out {
		if order := o.GetOrder(); order != nil {
			h.send(o.GetTo(), order)
		}
	}
	h.mu.Lock()
	h.doom()
	h.mu.Unlock()
	if h.machine.core.Epoch != h.epoch && now-h.snapshot >= snapshotEvery {
		return h.keepSnapshot()
	}
	return nil
}

const (
	snapshotEvery = time.Second // least run time between two snapshots
	archiveEvery  = 20_000      // records
)

// keepSnapshot writes the state after the last event, and moves old records to a segment now and then.
func (h *Hub) keepSnapshot() error {
	newest, ok, err := h.Journal.LatestSnapshot()
	if err != nil || (ok && newest.Seq >= h.machine.seq) {
		return err
	}
	h.mu.Lock()
	s, err := h.machine.snapshot()
	h.mu.Unlock()
	if err == nil {
		err = h.Journal.WriteSnapshot(s)
	}
	if isFull(err) {
		h.Log.Warn("no room for a snapshot: the journal has what it would say", "err", err)
		h.snapshot = h.machine.now
		return nil
	}
	if err != nil {
		return fmt.Errorf("snapshot after event %d: %w", h.machine.seq, err)
	}
	h.epoch, h.snapshot = h.machine.core.Epoch, h.machine.now
	before := h.previous
	h.previous = s.Seq
	if before < h.archived+archiveEvery {
		return nil
	}
	h.archived = before
	err = h.Journal.Archive(before)
	if isFull(err) {
		h.Log.Warn("no room for a segment: its records stay in the journal until the next one", "err", err)
		return nil
	}
	return err
}

// accept lets participants in until ctx ends.
func (h *Hub) accept(ctx context.Context, tasks *sync.WaitGroup, l transport.Listener) {
	known := paces{}
	for {
		conn, err := l.Accept(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, transport.ErrClosed) {
				h.Log.Error("accept", "err", err)
			}
			return
		}
		p := &peer{conn: conn, key: []byte(conn.Remote()), orders: make(chan []byte, maxOrders), pace: known.of(conn.Remote())}
		tasks.Go(func() { p.write(ctx) })
		tasks.Go(func() { h.read(ctx, p) })
	}
}
