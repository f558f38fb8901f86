package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/zeebo/blake3"

	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/role/orchestrator"
)

// report is what --report writes. Its keys are stable; those of parts that a run does without are present and empty.
type report struct {
	Run             string  `json:"run"`
	Seed            uint64  `json:"seed"`
	Preset          string  `json:"preset"`
	Parameters      int     `json:"parameters"`
	Stages          int     `json:"stages"`
	Numerics        string  `json:"numerics"`
	Tokens          uint64  `json:"tokens"`
	Seconds         float64 `json:"seconds"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	LossFirst       float64 `json:"loss_first"`
	LossLast        float64 `json:"loss_last"`
	LossEval        float64 `json:"loss_eval"`
	ChainHash       string  `json:"chain_hash"`
	WeightsHash     string  `json:"weights_hash"`
	MemoryPerMiner  []int   `json:"memory_per_miner"` // at most, in bytes, of each stage

	Wire       wireReport                 `json:"wire"`
	Epochs     []orchestrator.EpochReport `json:"epochs"`
	Miners     []minerReport              `json:"miners"`
	Validators []validatorReport          `json:"validators"`
	Faults     faultReport                `json:"faults"`
	Audits     auditReport                `json:"audits"`
	Ledger     ledgerReport               `json:"ledger"`
}

type wireReport struct {
	ActivationBytes         uint64  `json:"activation_bytes"`
	ActivationBytesPerToken float64 `json:"activation_bytes_per_token"`
	CompressionRatio        float64 `json:"compression_ratio"`
	ShareBytesPerMiner      float64 `json:"share_bytes_per_miner"` // in one merge
	MergeBytesPerMiner      float64 `json:"merge_bytes_per_miner"`
}

type minerReport struct {
	ID             string  `json:"id"`
	Stage          int     `json:"stage"`
	State          string  `json:"state"`
	Numerics       string  `json:"numerics"`
	Forwards       uint64  `json:"forwards"`
	Backwards      uint64  `json:"backwards"`
	Steps          uint64  `json:"steps"`
	ClaspEffect    float64 `json:"clasp_effect"`
	ClaspZ         float64 `json:"clasp_z"`
	Flagged        bool    `json:"flagged"`
	Agreement      float64 `json:"agreement"`
	Screened       bool    `json:"screened"` // its last share stood out
	VerdictsPassed uint64  `json:"verdicts_passed"`
	VerdictsFailed uint64  `json:"verdicts_failed"`
	Score          float64 `json:"score"`  // micro-batches of the whole model that pay was emitted for
	Earned         float64 `json:"earned"` // this and the next three are units of pay
	Escrow         float64 `json:"escrow"`
	Slashed        float64 `json:"slashed"`
	Unproven       float64 `json:"unproven"` // burned, because no replay could or did show that the work was done
}

type validatorReport struct {
	ID         string  `json:"id"`
	State      string  `json:"state"`
	Replays    uint64  `json:"replays"`
	Mismatches uint64  `json:"mismatches"`
	Earned     float64 `json:"earned"`
}

type faultReport struct {
	LeasesExpired uint64 `json:"leases_expired"`
	Rerouted      uint64 `json:"rerouted"`
	NonFinite     uint64 `json:"non_finite"`
	RefusedLate   uint64 `json:"refused_late"`
	Unmerged      uint64 `json:"unmerged"`
	Kicked        uint64 `json:"kicked"`
	Refuted       uint64 `json:"refuted"` // claims against inputs and sources
}

type auditReport struct {
	Share      float64 `json:"share"` // of all work that was drawn
	Segments   uint64  `json:"segments"`
	Shards     uint64  `json:"shards"`
	Mismatches uint64  `json:"mismatches"`
	Planted    uint64  `json:"planted"`
	Unverified uint64  `json:"unverified"` // drawn, and ended without a verdict
}

type ledgerReport struct {
	Entries uint64  `json:"entries"`
	Root    string  `json:"root"`
	Issued  float64 `json:"issued"` // units of pay
	Burned  float64 `json:"burned"`
}

func (o *options) makeReport(n *network) *report {
	r := newReport(n.hub.View(), n.hub.Chain(), n.hub.Checkpoints())
	r.Seed = n.manifest.GetData().GetSeed()
	if o.seeded {
		r.Seed = o.seed
	}
	r.MemoryPerMiner = n.memory()
	return r
}

// newReport is the report of a run, but for its seed and its memory, from a view of it, the end of its chain and its checkpoints.
func newReport(v orchestrator.View, chain [32]byte, checkpoints [][]byte) *report {
	c := v.Counters
	r := &report{
		Run: v.Run, Preset: v.Preset, Parameters: v.Parameters, Stages: len(v.Stages),
		Numerics: v.Numerics, Tokens: c.Tokens, Seconds: v.Now.Seconds(), LossFirst: c.LossFirst, LossLast: c.LossLast,
		LossEval: c.LossEval, ChainHash: hex.EncodeToString(chain[:]), WeightsHash: weightsHash(checkpoints),
		Epochs: v.Epochs, Validators: []validatorReport{}, Miners: []minerReport{}, MemoryPerMiner: []int{},
		Faults: faultReport{LeasesExpired: c.LeasesExpired, Rerouted: c.Rerouted, NonFinite: c.NonFinite,
			RefusedLate: c.RefusedLate, Kicked: c.Kicked, Refuted: c.Refuted},
	}
	if r.Epochs == nil {
		r.Epochs = []orchestrator.EpochReport{}
	}
	r.TokensPerSecond = ratio(float64(c.Tokens), r.Seconds)
	r.Wire = wireReport{
		ActivationBytes: c.ActivationBytes, ActivationBytesPerToken: ratio(float64(c.ActivationBytes), float64(c.Tokens)),
		CompressionRatio: ratio(float64(c.DenseBytes), float64(c.ActivationBytes)),
	}
	merges := 0 // one per miner and epoch
	for _, e := range v.Epochs {
		merges += e.Cohort
	}
	r.Wire.ShareBytesPerMiner = ratio(float64(c.ShareBytes), float64(merges))
	r.Wire.MergeBytesPerMiner = ratio(float64(c.MergeBytes), float64(merges))
	for _, s := range v.Stages {
		r.Faults.Unmerged += s.Unmerged
	}
	for _, m := range v.Miners {
		r.Miners = append(r.Miners, minerReport{
			ID: m.ID, Stage: m.Stage, State: m.State, Numerics: v.Numerics, Forwards: m.Forwards, Backwards: m.Backwards,
			Steps: m.Steps, Agreement: m.Agreement, VerdictsPassed: m.Passed, VerdictsFailed: m.Failed, Screened: m.Screened,
			Score: m.Pay.Score, Earned: units(m.Pay.Earned), Escrow: units(m.Pay.Escrow), Slashed: units(m.Pay.Slashed),
			Unproven:    units(m.Pay.Unproven),
			ClaspEffect: m.Clasp.Effect, ClaspZ: m.Clasp.Z, Flagged: m.Clasp.Flagged,
		})
	}
	r.Ledger = ledgerReport{
		Entries: v.Ledger.Entries, Root: hex.EncodeToString(v.Ledger.Root), Issued: units(v.Ledger.Issued), Burned: units(v.Ledger.Burned),
	}
	for _, w := range v.Validators {
		r.Validators = append(r.Validators, validatorReport{ID: w.ID, State: w.State, Replays: w.Replays, Mismatches: w.Mismatches,
			Earned: units(w.Pay.Earned)})
	}
	a := v.Audits
	r.Audits = auditReport{Share: ratio(a.Drawn, a.Work), Segments: a.Segments, Shards: a.Shards, Mismatches: a.Mismatches,
		Planted: a.Planted, Unverified: a.Unverified}
	return r
}

// units are units of pay.
func units(micro uint64) float64 { return float64(micro) / ledger.Unit }

// ratio is a/b, and 0 where nothing was counted.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// weightsHash is the BLAKE3 hash over the stages' checkpoint hashes in order; a stage that never merged counts as
// nothing.
func weightsHash(checkpoints [][]byte) string {
	h := blake3.New()
	for _, c := range checkpoints {
		_, _ = h.Write(c) // never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// checkReport says before a run, and not after it, that path is no place for a report.
func checkReport(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return usagef("--report %s is a folder: name a file", path)
	}
	folder := filepath.Dir(path)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return usagef("--report %s: there is no folder %s: make it first", path, folder)
	}
	return nil
}

func (r *report) write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = node.WriteFile(path, append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
