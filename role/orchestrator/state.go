package orchestrator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/iota-train/iota/protocol/clasp"
	"github.com/iota-train/iota/protocol/message"
)

// Phase is what a run does now.
type Phase string

// The phases, in the order of an epoch. Waiting comes before the first epoch, whenever a stage has no miner, and at
// the end.
const (
	Waiting    Phase = "Waiting"
	Training   Phase = "Training"
	Sharing    Phase = "Sharing"
	Reducing   Phase = "Reducing"
	Installing Phase = "Installing"
)

// state is everything that the core remembers. It is written to snapshots as JSON: field order and sorted map keys
// make the encoding unique.
type state struct {
	Now           time.Duration
	Phase         Phase
	Since, Until  time.Duration // of the phase
	Reason        string
	Draining      bool // Training takes in no new micro-batches
	Stopping      bool
	Finished      bool
	Epoch         uint64
	EpochStart    time.Duration
	TrainingLeft  time.Duration     // of the epoch clock, while it stands still
	Next          uint64            // the next micro-batch that never travelled
	Again         []uint64          // micro-batches that travel again, oldest first
	Acked         map[uint64][]bool // stages that already summed a micro-batch of Again or of a flight
	EvaluateNext  uint32            // held-out micro-batches of this epoch that were sent off
	EvaluateCount uint32            // of how many
	Evaluated     []float64         // their losses; by micro-batch, zero while unknown
	EvaluatedDone uint32
	Miners        []*miner // by number: order of registration
	Stages        []*stage
	Flights       []*flight // oldest first
	Counters      Counters
	LossSum       float64
	LossCount     uint64
	Epochs        []EpochReport
	Blobs         map[string]blob // every blob that a live epoch may still need
	Alerts        []Alert
	MergeStart    time.Duration
	Last          bool   // the last epoch is installed: only held-out micro-batches travel
	RateBits      uint32 // float32 bits of the inner learning rate of this epoch
	Books         books
	Clasp         clasp.Window
	Validators    []*validator
	Admitted      int      // validators ever
	Audits        []*audit // open ones, oldest first
	AuditCount    uint64   // ever opened
	AuditTotals   AuditTotals
	Unjudged      uint64 // of this epoch: ended because no validator came to it
	Evidence      []Evidence
}

// Counters are totals of the run.
type Counters struct {
	Tokens          uint64 // of micro-batches whose loss was acknowledged
	LossFirst       float64
	LossLast        float64 // mean of the last full epoch
	LossEval        float64
	EvalCount       uint32 // held-out micro-batches in LossEval
	ActivationBytes uint64 // activations and gradients that crossed a boundary
	DenseBytes      uint64 // what a dense float32 boundary would have sent
	ShareBytes      uint64
	MergeBytes      uint64 // sent and fetched in merges, all miners: 4W + 2W/N each per epoch
	LeasesExpired   uint64
	Rerouted        uint64
	NonFinite       uint64
	RefusedLate     uint64
	Refuted         uint64 // claims against inputs and sources
	Kicked          uint64
	Disagreements   uint64
	ShardsLost      uint64
	Screened        uint64 // shares that stood out
}

// Alert is a line for the operator.
type Alert struct {
	At   time.Duration
	Text string
}

// miner is what the core knows of one key.
type miner struct {
	Number      int // from 0
	Key         []byte
	Session     []byte
	Connected   bool
	SilentUntil time.Duration // after a restart: until when its work is kept
	Barred      string        // why it may not come back
	Stage       int           // -1 before the first assignment
	Installed   bool          // holds the stage's current weights
	LoadAfter   time.Duration // a load failed: not again before
	Order       *order        // the one standing order outside flights and shards
	Held        int           // slots in use
	Factor      float64       // of its weight in the draw: halved by an expired lease
	Unanswered  int           // leases in a row that ran out without any result
	TryAfter    time.Duration // a hung miner gets nothing before, where others can do it
	Service     float64       // seconds of work per micro-batch, moving average
	Busy        float64       // seconds since the last finished backward
	Hold        float64       // shortest recent time from forward to backward, seconds
	LastDone    time.Duration
	Log         []byte // hash of the newest receipt of this session
	Acks        []ack  // of this epoch and session, in order
	Stepped     int    // of which so many are reported as summed
	Uploaded    uint64
	Progress    time.Duration // when Uploaded last grew
	Forwards    uint64
	Backwards   uint64
	Steps       uint64
	Faults      int   // results that were not finite, and work that only it could not do, in a row
	Refuted     int   // claims against inputs that turned out false, since the last that was upheld; time lowers it
	Doubts      []int // the miner on the other side of each unchecked claim in a row, newest last
	Believed    bool  // a miner was withdrawn on its word alone
	Agreed      uint64
	Disagreed   uint64
	Spread      float64
	GradNorm    float64
	UpdateNorm2 float64
	Norm        float64      // of its last merged share, in medians of the cohort; 0 unknown
	Cosine      float64      // of that share to the others
	Screened    bool         // that share stood out
	Clasp       clasp.Effect // what the last evaluation found
	Receipts    [][]byte     // encoded, of its log since the last LOAD or INSTALL; with an audit share only
	LogFull     bool         // there were more than are kept
	LogBytes    int
	Passed      uint64  // verdicts
	Replayed    float64 // micro-batches of passed segments
	Failed      uint64
	Withheld    int    // epochs in a row in which it made audits impossible itself
	WithheldIn  uint64 // the last of them, plus 1
	Leaving     bool   `json:",omitempty"` // it asked to be let go
}

type ack struct {
	Batch   uint64
	Attempt uint32
	Kind    message.TaskKind
}

// order is a LOAD, SHARE, CLOSE, INSTALL or UPLOAD that a miner has not answered yet.
type order struct {
	Kind    message.TaskKind
	Attempt uint32
	Until   time.Duration
}

// stage is a slice of the model and its merge.
type stage struct {
	Index         int
	Cost          float64 // of a micro-batch, relative to the other stages
	Weights       uint64
	Checkpoint    *ref // nil: the initial weights
	CheckpointOf  uint64
	Previous      *ref // the checkpoint before, kept in case the last one gets lost
	PreviousOf    uint64
	Attempts      uint32 // orders sent, so that every attempt has its own number
	EpochAcked    uint64 // micro-batches acknowledged in this epoch
	Acknowledged  uint64 // in the whole run
	Merged        uint64
	Unmerged      uint64
	Cohort        []*member
	Shards        []*shard
	Installs      []install
	Agreed        *ref // the checkpoint that the install ended with
	Disputed      bool // the replicas differ after the outer step
	Arbiter       int  // of the outer step, -1 none
	ArbiterAt     uint32
	Settled       bool
	UploadTried   []int
	Disagreements uint64
	ResultNorm2   float64 // of the merged shards of which two miners say the same
}

// member is a miner of a frozen cohort. B is its number of acknowledged backwards.
type member struct {
	Miner  int
	B      uint64
	Shares []ref
	Gone   bool
	Unfit  bool    // two miners, or itself, found a shard of its share not finite
	Norm2  float64 // of its share, and the product with the result, over the shards of which two miners say the same
	Dot    float64
}

// shard is one slice of a merge.
type shard struct {
	From, To  uint64
	Owners    [2]int // members, equal where the cohort has one
	Results   [2]*reduction
	Closed    [2]bool // no result will come any more
	Attempt   [2]uint32
	Arbiter   int // miner, -1 none
	ArbiterAt uint32
	Disputed  bool
	Final     *ref
	Lost      bool
	Done      bool
	Vouchers  []party // who reduced it
}

// reduction is what an owner or an arbiter made of a shard.
type reduction struct {
	Result ref
	Unfit  []int  // members whose share it left out, because it is not finite
	Stats  []byte // hash of the norms and products that came with it
}

func (r *reduction) same(o *reduction) bool {
	return r.Result.same(o.Result) && slices.Equal(r.Unfit, o.Unfit) && bytes.Equal(r.Stats, o.Stats)
}

type install struct {
	Miner  int
	Result ref
}

// flight is a micro-batch on its way forward and back.
type flight struct {
	Batch     uint64
	HeldOut   bool // a held-out micro-batch: forward only
	Back      bool
	Hop       int   // the stage that works on it now, or next
	Path      []int // who holds its slot in each stage, -1 nobody
	Makers    []int // who made each stage's last output
	Wires     []ref // output of each stage but the last
	Gradients []ref // by each stage but the first: the gradient of its input
	Attempt   uint32
	Lease     *lease
	Claims    []claim         // against the inputs of the present piece of work, open ones
	Avoid     int             // number of the miner, plus 1, that just failed it; 0 none
	Sent      []time.Duration // when the forward of each stage was ordered
}

type lease struct {
	Miner int
	Until time.Duration
	Sent  time.Duration
	Rerun bool
}

type ref struct {
	Hash []byte
	Size uint64
}

func newRef(r *message.BlobRef) ref { return ref{r.GetHash(), r.GetSize()} }

func (r ref) blob() *message.BlobRef { return &message.BlobRef{Hash: r.Hash, Size: r.Size} }

func (r ref) same(o ref) bool { return string(r.Hash) == string(o.Hash) && r.Size == o.Size }

// blob remembers the last epoch that used a stored blob.
type blob struct {
	Size  uint64
	Epoch uint64
}

// snapshot is what Snapshot writes.
type snapshot struct {
	Manifest []byte // hash
	Rng      []byte
	State    *state
}

// Snapshot encodes the whole state. Equal states have equal encodings.
func (o *Orchestrator) Snapshot() ([]byte, error) {
	rng, err := o.rng.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return json.Marshal(snapshot{o.hash, rng, &o.state})
}

// Restore replaces the state by a snapshot of the same run.
func (o *Orchestrator) Restore(b []byte) error {
	var s snapshot
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	if string(s.Manifest) != string(o.hash) {
		return fmt.Errorf("restore snapshot: it belongs to another run")
	}
	var rng rand.ChaCha8
	if err := rng.UnmarshalBinary(s.Rng); err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	o.state = *s.State
	o.rng, o.dice = &rng, rand.New(&rng)
	return nil
}
