package orchestrator

import (
	"time"

	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/protocol/message"
)

// audit is work that is done again by somebody else: a segment of one miner's log, or one merged shard. It is drawn when
// the receipts are in (draw.go), moves on as states and judges are there (pursue.go, judge.go), and ends with a verdict
// (verdict.go), or without one when its challenge window closes.
type audit struct {
	Number     uint64 // from 1
	Epoch      uint64
	Stage      int
	Shard      int // -1: a segment of the log of Miner
	Miner      int // whose log it is, -1 for a shard
	Session    []byte
	First      bool // before the others: somebody is suspect, or the shard has but one voucher or is disputed
	Lot        float64
	Planted    bool     // altered, so that the receipts show no right answer: it is the validators who are checked
	Twin       uint64   // of a planted one: the number of the audit that it was made from
	Elsewhere  []judge  // who was given the other of the two
	Parties    []party  // whose receipts are compared with what comes of it
	Order      [][]byte // the encoded log, as judges get it
	Units      float64  // of work
	Acked      uint64   // micro-batches that were acknowledged: if there are any, passing is a proof
	Unmerged   uint64   // of them those that no merge pays for
	Checkpoint *ref     // that the log begins with
	Segment    message.Segment
	Private    *ref // state that the log begins with
	State      *ref // that it resumes
	Asked      time.Duration
	Blobs      []ref // that the log reads
	Attempts   uint32
	Bytes      int // of its order and receipts
	Need       int // answers wanted
	Answers    []answer
	Declined   []judge
	Leases     []replayLease
}

// party is a miner whose word is at stake: its receipts, encoded, in the order of the log.
type party struct {
	Miner    int
	Receipts [][]byte
}

// replayLease is a replay under way.
type replayLease struct {
	Judge   judge
	Attempt uint32
	Until   time.Duration
}

// AuditTotals are totals of the run. Work is in units: a micro-batch forward and back through a stage of mean cost.
type AuditTotals struct {
	Segments, Shards, Planted uint64  // drawn
	Mismatches                uint64  // verdicts against a miner
	Unverified                uint64  // drawn, but ended without a verdict
	Work, Drawn               float64 // of all logs, of the replays drawn
}

// Bounds of audits.
const (
	maxLog      = 1 << 14 // receipts of a miner and an epoch that are kept
	maxLogBytes = 8 << 20 // of them
	maxAudits   = 4096    // open at once; more are not drawn
	maxBytes    = 1 << 28 // of all open audits: the largest gives way
	maxAnswers  = 5       // to one audit from validators alone: then miners are asked as well
	mostAnswers = 16      // then it ends undecided
	maxWithheld = 3       // epochs in a row with audits that a miner itself made impossible, before that is a failed verdict
)

// Shares of audits that check the validators: that two of them do, and that come once more, for two of them, in an altered
// form. They are part of the audit share: a segment is drawn with the share over replays.
const (
	doubleShare  = 0.125
	plantedShare = 0.0625
	replays      = 1 + doubleShare + 2*plantedShare
)

// keepReceipt adds a receipt to what is kept of its miner's log: from its last LOAD or INSTALL on.
func (o *Orchestrator) keepReceipt(m *miner, raw []byte, r *message.Receipt) {
	if o.rules.GetAuditShare() <= 0 {
		return
	}
	switch r.GetTask().GetKind() {
	case message.TaskKind_STATE, message.TaskKind_REPLAY: // which say nothing of its own work
		return
	case message.TaskKind_LOAD: // one that nobody ordered does not wipe out what was done
		ordered := m.Order != nil && m.Order.Kind == message.TaskKind_LOAD && m.Order.Attempt == r.GetAttempt()
		if ordered && r.GetTask().GetEpoch() == o.Epoch && r.GetFault() == message.Fault_FAULT_NONE {
			m.Receipts, m.LogFull, m.LogBytes = nil, false, 0
		}
	}
	m.LogBytes += len(raw)
	if m.LogFull = m.LogFull || len(m.Receipts) >= maxLog || m.LogBytes > maxLogBytes; !m.LogFull {
		m.Receipts = append(m.Receipts, raw)
	}
}

// efforts are the parts of a micro-batch's work: its backward takes twice its forward.
var efforts = map[message.TaskKind]float64{
	message.TaskKind_FORWARD: 1, message.TaskKind_EVALUATE: 1, message.TaskKind_BACKWARD: 2, message.TaskKind_LOSS: 3,
}

// units is the work of a receipt.
func (o *Orchestrator) units(r *message.Receipt) float64 {
	stage := int(r.GetTask().GetStage())
	if r.GetFault() != message.Fault_FAULT_NONE || stage >= len(o.Stages) {
		return 0
	}
	total := 0.0
	for _, s := range o.Stages {
		total += s.Cost
	}
	return float64(efforts[r.GetTask().GetKind()]/3) * float64(o.Stages[stage].Cost*float64(len(o.Stages))/total)
}

// batches is an audit's work in micro-batches of its stage, forward and back.
func (a *audit) batches(o *Orchestrator) float64 {
	return float64(a.Units * float64(ledger.Whole) / float64(len(o.Stages)) / float64(o.stageUnits()[a.Stage]))
}

// opened decodes a receipt that the core encoded or took in.
func opened(raw []byte) *message.Receipt {
	r, err := (&message.Result{Receipt: raw}).Open()
	if err != nil {
		return &message.Receipt{Task: &message.TaskID{}}
	}
	return r
}
