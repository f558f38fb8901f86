package orchestrator

import (
	"time"

	"github.com/iota-train/iota/protocol/clasp"
	"github.com/iota-train/iota/protocol/message"
)

// View is a snapshot of a run for people: the display, the status page, reports and tests. It shares no memory with the
// core. Bytes are bytes, losses nats per token.
type View struct {
	Run, Preset, Numerics string
	Parameters            int
	Now                   time.Duration
	Phase                 Phase
	Since, Until          time.Duration
	Reason                string
	Draining, Finished    bool
	Epoch                 uint64  // the running epoch, from 0; as many are installed
	Progress              float64 // of the epoch's training, 0 to 1: that of the stage furthest behind
	InFlight              int
	Rate                  float64 // inner learning rate of this epoch
	Counters              Counters
	Stages                []StageView
	Miners                []MinerView
	Epochs                []EpochReport
	Alerts                []Alert
	Ledger                LedgerView
	Validators            []ValidatorView
	Audits                AuditTotals
	OpenAudits            int
	AuditShare            float64 // that the manifest asks for
	Evidence              []Evidence
}

// ValidatorView is one validator. Number counts from 1 in order of registration.
type ValidatorView struct {
	Number              int
	ID, State           string // absent, idle, replaying, barred
	Replays, Mismatches uint64
	Units               float64 // of work whose replay was confirmed
	Pay                 PayView
}

// StageView is one stage. In every stage Merged, Unmerged and Open, those of the running epoch, make Acknowledged; all
// four count micro-batches.
type StageView struct {
	Index                          int
	Active, Queue                  int // miners at work; micro-batches waiting for one
	Acknowledged, Merged, Unmerged uint64
	Open                           uint64
	Checkpoint                     string // hash of the last verified checkpoint, "" for the initial weights
	CheckpointEpoch                uint64
	Disagreements                  uint64
}

// MinerView is one miner. Number counts from 1 in order of registration.
type MinerView struct {
	Number                     int
	ID                         string
	Key                        []byte
	Stage                      int    // -1 before the first assignment
	State                      string // absent, waiting, loading, training, sharing, reducing, installing, leaving, barred
	Held, Slots                int
	B                          uint64  // acknowledged backwards of this epoch
	Speed                      float64 // micro-batches per second
	Forwards, Backwards, Steps uint64
	Agreement                  float64 // share of its merged shards on which its pair agreed, 1 if none
	Norm, Cosine               float64 // of its last merged share: norm in medians of the cohort, cosine to the rest; 0 unknown
	Screened                   bool    // that share stood out
	Pay                        PayView
	Clasp                      clasp.Effect
	Passed, Failed             uint64  // verdicts
	Replayed                   float64 // micro-batches that passed audits, forward and back
	Barred                     string  // why it was withdrawn, "" for one that was not
}

// EpochReport is a finished epoch.
type EpochReport struct {
	Epoch         uint64        `json:"epoch"`
	Seconds       float64       `json:"seconds"`
	MergeSeconds  float64       `json:"merge_seconds"`
	Tokens        uint64        `json:"tokens"`
	Loss          float64       `json:"loss"`
	Cohort        int           `json:"cohort"`
	BEff          uint64        `json:"b_eff"`
	Shards        int           `json:"shards"`
	ShardsLost    int           `json:"shards_lost"`
	Disagreements int           `json:"disagreements"`
	Stages        []StageReport `json:"stages"`
}

// StageReport holds an epoch's norms in one stage: means over the cohort of the gradient norm of the last inner step
// and of the norm of the pseudo-gradients, and the spread of the replicas before the merge (root mean square distance
// from their mean).
type StageReport struct {
	GradientNorm float64 `json:"gradient_norm"`
	UpdateNorm   float64 `json:"update_norm"`
	Spread       float64 `json:"spread"`
	// The agreement matrix of the epoch: the pairs of miners, by number, whose results of their common shard differ, and
	// those of which one result or both did not come. All other pairs agree.
	Disagreed [][2]int `json:"disagreed,omitempty"`
	Unknown   [][2]int `json:"unknown,omitempty"`
}

// View returns a snapshot.
func (o *Orchestrator) View() View {
	v := View{
		Run: o.manifest.GetRun(), Preset: o.manifest.GetPreset(), Numerics: o.manifest.GetNumerics(),
		Parameters: o.shape.Parameters(), Now: o.Now, Phase: o.Phase, Since: o.Since, Until: o.Until, Reason: o.Reason,
		Draining: o.Draining, Finished: o.Finished, Epoch: o.Epoch, Progress: o.progress(), InFlight: len(o.Flights),
		Rate: float64(o.rate()), Counters: o.Counters,
		Epochs: append([]EpochReport(nil), o.Epochs...), Alerts: append([]Alert(nil), o.Alerts...), Ledger: o.ledgerView(),
	}
	for _, s := range o.Stages {
		sv := StageView{
			Index: s.Index, Active: len(o.active(s.Index)), Acknowledged: s.Acknowledged, Merged: s.Merged,
			Unmerged: s.Unmerged, Open: s.EpochAcked, CheckpointEpoch: s.CheckpointOf, Disagreements: s.Disagreements,
		}
		if s.Checkpoint != nil {
			sv.Checkpoint = message.Short(s.Checkpoint.Hash)
		}
		for _, f := range o.Flights {
			if f.Hop == s.Index && f.Lease == nil {
				sv.Queue++
			}
		}
		v.Stages = append(v.Stages, sv)
	}
	for _, m := range o.Miners {
		v.Miners = append(v.Miners, o.minerView(m))
	}
	v.Audits, v.OpenAudits, v.AuditShare = o.AuditTotals, len(o.Audits), o.rules.GetAuditShare()
	v.Evidence = append(v.Evidence, o.Evidence...)
	busy := o.busyJudges()
	for _, w := range o.Validators {
		v.Validators = append(v.Validators, o.validatorView(w, busy))
	}
	return v
}

func (o *Orchestrator) validatorView(w *validator, busy map[judge]bool) ValidatorView {
	v := ValidatorView{Number: w.Number + 1, ID: message.Short(w.Key), Replays: w.Replays, Mismatches: w.Mismatches, Units: w.Units,
		Pay: o.payView(w.Key), State: "idle"}
	switch {
	case w.Barred != "":
		v.State = "barred"
	case !w.Connected:
		v.State = "absent"
	case busy[w.judge()]:
		v.State = "replaying"
	}
	return v
}

func (o *Orchestrator) minerView(m *miner) MinerView {
	v := MinerView{
		Number: m.Number + 1, ID: message.Short(m.Key), Key: append([]byte(nil), m.Key...), Stage: m.Stage, State: o.stateOf(m),
		Held: m.Held, Slots: o.slots(m), B: uint64(len(m.Acks)), Speed: m.speed(), Forwards: m.Forwards,
		Backwards: m.Backwards, Steps: m.Steps, Agreement: 1, Pay: o.payView(m.Key), Clasp: m.Clasp,
		Norm: m.Norm, Cosine: m.Cosine, Screened: m.Screened,
		Passed: m.Passed, Failed: m.Failed, Replayed: m.Replayed, Barred: m.Barred,
	}
	if n := m.Agreed + m.Disagreed; n > 0 {
		v.Agreement = float64(m.Agreed) / float64(n)
	}
	return v
}

func (o *Orchestrator) stateOf(m *miner) string {
	switch {
	case m.Barred != "":
		return "barred"
	case !m.Connected:
		return "absent"
	case m.Leaving:
		return "leaving"
	case m.Order != nil:
		switch m.Order.Kind {
		case message.TaskKind_LOAD:
			return "loading"
		case message.TaskKind_SHARE, message.TaskKind_CLOSE:
			return "sharing"
		default:
			return "installing"
		}
	case !m.Installed:
		return "waiting"
	case o.Phase == Reducing:
		return "reducing"
	}
	return "training"
}

// progress is the least, over the stages, of the mean share of B_min that the stage's active miners have reached.
func (o *Orchestrator) progress() float64 {
	least := 1.0
	for _, s := range o.Stages {
		var sum, need float64
		for _, m := range o.active(s.Index) {
			sum += min(1, float64(len(m.Acks))/float64(o.threshold()))
			need++
		}
		if need == 0 {
			return 0
		}
		least = min(least, sum/need)
	}
	return least
}
