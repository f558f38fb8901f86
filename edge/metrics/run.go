package metrics

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/role/orchestrator"
)

// Run collects from a run and from the process that orchestrates it.
type Run struct {
	View    func() orchestrator.View
	Vitals  func() node.Vitals
	Blobs   func() uint64 // bytes; nil where the store does not know
	Version string
}

type view = *orchestrator.View

// runSeries are those without labels.
var runSeries = []series[view]{
	counter("tokens_total", "Tokens whose loss was acknowledged.", func(v view) float64 { return float64(v.Counters.Tokens) }),
	counter("epochs_total", "Epochs that were installed.", func(v view) float64 { return float64(v.Epoch) }),
	gauge("phase_seconds", "Run time since the phase began.", func(v view) float64 { return (v.Now - v.Since).Seconds() }),
	gauge("phase_deadline_seconds", "Run time until the phase's deadline; negative once it passed.", func(v view) float64 { return (v.Until - v.Now).Seconds() }),
	gauge("draining", "1 while Training takes in no new micro-batches.", func(v view) float64 { return truth(v.Draining) }),
	gauge("finished", "1 when the run has ended.", func(v view) float64 { return truth(v.Finished) }),
	gauge("run_seconds", "Run time, which stands still while the orchestrator is down.", func(v view) float64 { return v.Now.Seconds() }),
	gauge("micro_batches_in_flight", "Micro-batches on their way.", func(v view) float64 { return float64(v.InFlight) }),
	gauge("parameters", "Parameters of the model.", func(v view) float64 { return float64(v.Parameters) }),
	gauge("learning_rate", "Inner learning rate of this epoch.", func(v view) float64 { return v.Rate }),
	counter("leases_expired_total", "Tasks that took longer than their lease.", func(v view) float64 { return float64(v.Counters.LeasesExpired) }),
	counter("rerouted_total", "Tasks given to another miner.", func(v view) float64 { return float64(v.Counters.Rerouted) }),
	counter("non_finite_total", "Results that were not finite.", func(v view) float64 { return float64(v.Counters.NonFinite) }),
	counter("refused_late_total", "Results that came too late to be used.", func(v view) float64 { return float64(v.Counters.RefusedLate) }),
	counter("refuted_total", "Claims against an input that turned out false.", func(v view) float64 { return float64(v.Counters.Refuted) }),
	counter("kicked_total", "Participants that were withdrawn.", func(v view) float64 { return float64(v.Counters.Kicked) }),
	counter("disagreements_total", "Results of two replicas that differed.", func(v view) float64 { return float64(v.Counters.Disagreements) }),
	counter("shards_lost_total", "Shards that nobody merged.", func(v view) float64 { return float64(v.Counters.ShardsLost) }),
	counter("shares_screened_total", "Shares that stood out in their cohort.", func(v view) float64 { return float64(v.Counters.Screened) }),
	counter("activation_bytes_total", "Bytes of activations and gradients that crossed a boundary.", func(v view) float64 { return float64(v.Counters.ActivationBytes) }),
	counter("share_bytes_total", "Bytes of shares.", func(v view) float64 { return float64(v.Counters.ShareBytes) }),
	counter("merge_bytes_total", "Bytes sent and fetched in merges.", func(v view) float64 { return float64(v.Counters.MergeBytes) }),
	counter("audits_drawn_total", "Segments and shards drawn for an audit.", func(v view) float64 { return float64(v.Audits.Segments + v.Audits.Shards) }),
	counter("audit_mismatches_total", "Verdicts against a miner.", func(v view) float64 { return float64(v.Audits.Mismatches) }),
	counter("audits_unverified_total", "Audits that ended without a verdict.", func(v view) float64 { return float64(v.Audits.Unverified) }),
	gauge("audits_open", "Audits without a verdict so far.", func(v view) float64 { return float64(v.OpenAudits) }),
	counter("ledger_issued_units_total", "Units of pay that were issued.", func(v view) float64 { return float64(v.Ledger.Issued) / ledger.Unit }),
	counter("ledger_burned_units_total", "Units of pay that were burned.", func(v view) float64 { return float64(v.Ledger.Burned) / ledger.Unit }),
	counter("ledger_paid_units_total", "Units of pay that were paid.", func(v view) float64 { return float64(v.Ledger.Paid) / ledger.Unit }),
	gauge("ledger_escrow_units", "Units of pay in escrow.", func(v view) float64 { return float64(v.Ledger.Escrow) / ledger.Unit }),
}

// epochSeries are of the last epoch, once there is one.
var epochSeries = []series[orchestrator.EpochReport]{
	gauge("epoch_seconds", "Duration of the last epoch.", func(e orchestrator.EpochReport) float64 { return e.Seconds }),
	gauge("merge_seconds", "Duration of the last merge.", func(e orchestrator.EpochReport) float64 { return e.MergeSeconds }),
	gauge("loss_nats", "Mean training loss per token of the last epoch.", func(e orchestrator.EpochReport) float64 { return e.Loss }),
	gauge("cohort_miners", "Miners whose work the last epoch merged.", func(e orchestrator.EpochReport) float64 { return float64(e.Cohort) }),
}

// stageSeries have the stage as label.
var stageSeries = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(orchestrator.StageView) float64
}{
	{describe("stage_active_miners", "Miners at work in the stage.", "stage"), prometheus.GaugeValue, func(s orchestrator.StageView) float64 { return float64(s.Active) }},
	{describe("stage_queue", "Micro-batches that wait for a miner of the stage.", "stage"), prometheus.GaugeValue, func(s orchestrator.StageView) float64 { return float64(s.Queue) }},
	{describe("stage_acknowledged_total", "Micro-batches acknowledged in the stage.", "stage"), prometheus.CounterValue, func(s orchestrator.StageView) float64 { return float64(s.Acknowledged) }},
	{describe("stage_merged_total", "Of those, how many were merged.", "stage"), prometheus.CounterValue, func(s orchestrator.StageView) float64 { return float64(s.Merged) }},
	{describe("stage_unmerged_total", "Of those, how many never will be.", "stage"), prometheus.CounterValue, func(s orchestrator.StageView) float64 { return float64(s.Unmerged) }},
}

// processSeries are of the orchestrator's process.
var processSeries = []series[node.Vitals]{
	gauge("journal_seq", "Number of the last durable event.", func(v node.Vitals) float64 { return float64(v.Seq) }),
	gauge("connections", "Participants with a connection.", func(v node.Vitals) float64 { return float64(v.Connections) }),
	gauge("still_seconds", "Time since the orchestrator's loop last moved.", func(v node.Vitals) float64 { return v.Still.Seconds() }),
}

var (
	infoDesc         = describe("info", "The run.", "run", "preset", "numerics", "version")
	phaseDesc        = describe("phase", "1 for the phase that the run is in.", "phase")
	lossEvalDesc     = describe("loss_eval_nats", "Loss per token on held-out text, at the last install.")
	minersDesc       = describe("miners", "Miners by state.", "state")
	validatorsDesc   = describe("validators", "Validators by state.", "state")
	groupEventsDesc  = describe("journal_group_events", "Events that became durable together.")
	groupSecondsDesc = describe("journal_append_seconds", "Time that it took a group of events to become durable.")
	blobBytesDesc    = describe("blob_bytes", "Bytes of stored blobs.")
)

var (
	phases          = []orchestrator.Phase{orchestrator.Waiting, orchestrator.Training, orchestrator.Sharing, orchestrator.Reducing, orchestrator.Installing}
	minerStates     = []string{"absent", "waiting", "loading", "training", "sharing", "reducing", "installing", "leaving", "barred"}
	validatorStates = []string{"absent", "idle", "replaying", "barred"}
)

// Describe leaves the registry to look at what is collected.
func (r *Run) Describe(chan<- *prometheus.Desc) {}

// Collect reads everything once.
func (r *Run) Collect(ch chan<- prometheus.Metric) {
	v := r.View()
	number(ch, infoDesc, prometheus.GaugeValue, 1, v.Run, v.Preset, v.Numerics, r.Version)
	for _, s := range runSeries {
		s.send(ch, &v)
	}
	for _, p := range phases {
		number(ch, phaseDesc, prometheus.GaugeValue, truth(v.Phase == p), string(p))
	}
	if n := len(v.Epochs); n > 0 {
		for _, s := range epochSeries {
			s.send(ch, v.Epochs[n-1])
		}
	}
	if v.Counters.EvalCount > 0 {
		number(ch, lossEvalDesc, prometheus.GaugeValue, v.Counters.LossEval)
	}
	for _, stage := range v.Stages {
		for _, s := range stageSeries {
			number(ch, s.desc, s.kind, s.value(stage), strconv.Itoa(stage.Index))
		}
	}
	miners, validators := map[string]int{}, map[string]int{}
	for _, m := range v.Miners {
		miners[m.State]++
	}
	for _, w := range v.Validators {
		validators[w.State]++
	}
	for _, state := range minerStates {
		number(ch, minersDesc, prometheus.GaugeValue, float64(miners[state]), state)
	}
	for _, state := range validatorStates {
		number(ch, validatorsDesc, prometheus.GaugeValue, float64(validators[state]), state)
	}
	r.process(ch)
}

func (r *Run) process(ch chan<- prometheus.Metric) {
	v := r.Vitals()
	for _, s := range processSeries {
		s.send(ch, v)
	}
	histogram(ch, groupEventsDesc, v.Groups)
	histogram(ch, groupSecondsDesc, v.Durable)
	if r.Blobs != nil {
		number(ch, blobBytesDesc, prometheus.GaugeValue, float64(r.Blobs()))
	}
}

func histogram(ch chan<- prometheus.Metric, d *prometheus.Desc, h node.Histogram) {
	below, total := map[float64]uint64{}, uint64(0)
	for i, n := range h.Counts {
		if total += n; i < len(h.Bounds) {
			below[h.Bounds[i]] = total
		}
	}
	ch <- prometheus.MustNewConstHistogram(d, total, h.Sum, below)
}

// maxStill is for how long the orchestrator's loop may not move before it counts as stuck, behind a disk for instance. It
// moves ten times a second, and a snapshot of a large run takes a part of one.
const maxStill = 15 * time.Second

// Alive says why the process should be started anew.
func (r *Run) Alive() string {
	if v := r.Vitals(); v.Serving && v.Still > maxStill {
		return fmt.Sprintf("the orchestrator has not moved for %v: look at its disk", v.Still.Round(time.Second))
	}
	return ""
}

// Ready says why no participant should be sent here.
func (r *Run) Ready() string {
	if !r.Vitals().Serving {
		return "no participants are served: the run is not open yet, has ended, or its journal cannot be written"
	}
	return r.Alive()
}
