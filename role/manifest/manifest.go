// Package manifest translates between the run manifest, which every participant of a run shares and whose hash every receipt signs, and the
// types of the training code.
package manifest

import (
	"fmt"
	"math"
	"time"

	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/optim"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/aggregate"
	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/protocol/message"
)

// Shape is the model configuration of a manifest. It is not validated.
func Shape(m *message.Manifest) model.Config {
	s := m.GetModel()
	c := model.Config{
		Vocab: int(s.GetVocab()), Width: int(s.GetWidth()), Heads: int(s.GetHeads()), KVHeads: int(s.GetKvHeads()),
		FFN: int(s.GetFfn()), SeqLen: int(s.GetSeqLen()), Batch: int(s.GetBatch()), RopeTheta: s.GetRopeTheta(),
		Boundary: s.GetBoundary(), BoundaryWidth: int(s.GetBoundaryWidth()), Wire: s.GetWire(),
		BufferSeed: m.GetData().GetSeed(),
	}
	for _, blocks := range s.GetCuts() {
		c.Cuts = append(c.Cuts, int(blocks))
	}
	return c
}

// Model is the manifest form of a model configuration.
func Model(c model.Config) *message.Model {
	m := &message.Model{
		Vocab: uint32(c.Vocab), Width: uint32(c.Width), Heads: uint32(c.Heads), KvHeads: uint32(c.KVHeads),
		Ffn: uint32(c.FFN), SeqLen: uint32(c.SeqLen), Batch: uint32(c.Batch), RopeTheta: c.RopeTheta,
		Boundary: c.Boundary, BoundaryWidth: uint32(c.BoundaryWidth), Wire: c.Wire,
	}
	for _, blocks := range c.Cuts {
		m.Cuts = append(m.Cuts, uint32(blocks))
	}
	return m
}

// DefaultRules are the rules of a run on a local network. Durations and sizes suit the presets nano to small.
func DefaultRules() *message.Rules {
	return &message.Rules{
		InnerSteps: 12, MicroBatchesPerStep: 1, Quorum: 1, CommitEvery: 16, Share: string(tensor.F32), Aggregate: aggregate.Mean,
		LearningRate: 3e-3, WarmupTokens: 60_000, OuterRate: 0.6, OuterMomentum: 0.5, Clip: 1, WeightDecay: 0.1,
		MaxSlots: 3, HeldOut: 64, HeldOutPerEpoch: 1, KeepEpochs: 2, MaxMiners: 1024,
		Lease: int64(20 * time.Second), EpochDeadline: int64(5 * time.Minute), DrainDeadline: int64(30 * time.Second),
		ShareDeadline: int64(time.Minute), ShareGrace: int64(time.Minute), ReduceDeadline: int64(time.Minute),
		InstallDeadline: int64(time.Minute), Reconnect: int64(15 * time.Second), Patience: int64(30 * time.Second),
		BudgetPerToken: 1000, ValidatorPart: 100_000, ChallengeWindow: 4, Probation: 32,
	}
}

// Check returns an error of one line if the manifest contradicts itself.
func Check(m *message.Manifest) error {
	if err := Shape(m).Validate(); err != nil {
		return err
	}
	r := m.GetRules()
	for _, n := range []struct {
		name  string
		value uint32
		max   uint32
	}{
		{"inner steps per epoch", r.GetInnerSteps(), 1 << 20}, {"micro-batches per step", r.GetMicroBatchesPerStep(), 1 << 20},
		{"steps between commitments", r.GetCommitEvery(), 1 << 20}, {"slots", r.GetMaxSlots(), 64},
		{"held-out micro-batches", r.GetHeldOut(), 64}, {"miners", r.GetMaxMiners(), 1 << 16},
	} {
		if n.value < 1 || n.value > n.max {
			return fmt.Errorf("rules: %s is %d: use 1 to %d", n.name, n.value, n.max)
		}
	}
	for _, err := range []error{checkPay(r), checkAudits(r), checkData(m.GetData())} {
		if err != nil {
			return err
		}
	}
	if r.GetHeldOutPerEpoch() > r.GetHeldOut() {
		return fmt.Errorf("rules: %d held-out micro-batches per epoch, but there are %d", r.GetHeldOutPerEpoch(), r.GetHeldOut())
	}
	if q := r.GetQuorum(); !(q > 0 && q <= 1) {
		return fmt.Errorf("rules: quorum is %v: use a share above 0, at most 1", q)
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"learning rate", r.GetLearningRate()}, {"outer rate", r.GetOuterRate()}, {"outer momentum", r.GetOuterMomentum()},
		{"clip", r.GetClip()}, {"weight decay", r.GetWeightDecay()},
	} {
		if !(f.value >= 0) || math.IsInf(f.value, 0) {
			return fmt.Errorf("rules: %s is %v: use a number from 0", f.name, f.value)
		}
	}
	for _, d := range []struct {
		name  string
		value int64
	}{
		{"lease", r.GetLease()}, {"epoch deadline", r.GetEpochDeadline()}, {"drain deadline", r.GetDrainDeadline()},
		{"share deadline", r.GetShareDeadline()}, {"reduce deadline", r.GetReduceDeadline()},
		{"install deadline", r.GetInstallDeadline()}, {"reconnect time", r.GetReconnect()}, {"patience", r.GetPatience()},
	} {
		if d.value <= 0 {
			return fmt.Errorf("rules: %s is %v: use a time above 0", d.name, time.Duration(d.value))
		}
	}
	if _, err := aggregate.New(r.GetAggregate()); err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	return nil
}

// Pay is what the ledger needs of a manifest. The rules are those that Check accepts.
func Pay(m *message.Manifest) ledger.Rules {
	r := m.GetRules()
	return ledger.Rules{
		PerBatch: r.GetBudgetPerToken() * uint64(Shape(m).Rows()), Validators: uint64(r.GetValidatorPart()),
		Window: uint64(r.GetChallengeWindow()), Probation: uint64(r.GetProbation()),
		Proofs: r.GetAuditShare() > 0,
	}
}

// checkPay bounds the rules of pay: far above any use, and so that products and the state stay small.
func checkPay(r *message.Rules) error {
	for _, n := range []struct {
		name       string
		value, max uint64
	}{
		{"budget per token in micro-units", r.GetBudgetPerToken(), 1e9}, {"validators' part in millionths", uint64(r.GetValidatorPart()), 1e6},
		{"challenge window in epochs", uint64(r.GetChallengeWindow()), 1000}, {"probation in micro-batches", uint64(r.GetProbation()), 1 << 20},
	} {
		if n.value > n.max {
			return fmt.Errorf("rules: %s is %d: use 0 to %d", n.name, n.value, n.max)
		}
	}
	return nil
}

// maxBlobs bounds the blobs of a run's data: a manifest has to fit into a message.
const maxBlobs = 1 << 16

// checkData returns an error unless the blobs of the data are chunks.
func checkData(d *message.Data) error {
	if n := len(d.GetBlobs()); n > maxBlobs {
		return fmt.Errorf("data: %d blobs: use at most %d", n, maxBlobs)
	}
	for i, ref := range d.GetBlobs() {
		if len(ref.GetHash()) != 32 || ref.GetSize() < 1 || ref.GetSize() > data.MaxChunk {
			return fmt.Errorf("data: blob %d has a hash of %d bytes and a size of %d: use 32, and 1 to %d", i, len(ref.GetHash()), ref.GetSize(), data.MaxChunk)
		}
	}
	return nil
}

// checkAudits returns an error if the rules of audits contradict themselves.
func checkAudits(r *message.Rules) error {
	if a := r.GetShardShare(); !(a >= 0 && a <= 1) {
		return fmt.Errorf("rules: share of audited shards is %v: use a share from 0 to 1", a)
	}
	if a := r.GetAuditShare(); !(a >= 0 && a <= 1) {
		return fmt.Errorf("rules: audit share is %v: use a share from 0 to 1", a)
	}
	if w := r.GetChallengeWindow(); r.GetAuditShare() > 0 && (w == 0 || w > 64) {
		return fmt.Errorf("rules: challenge window is %d epochs: with audits use 1 to 64", w)
	}
	return nil
}

// Rate is the inner learning rate of an epoch that begins when so many tokens were trained on and so much of the run
// is over (0 to 1; 0 all along in an open-ended run, which thus stays at its peak after warm-up).
func Rate(r *message.Rules, tokens uint64, progress float64) float32 {
	warm := optim.Schedule{Peak: r.GetLearningRate(), WarmUp: float64(r.GetWarmupTokens())}
	decay := optim.Schedule{Peak: 1, Floor: 0.1, Total: 1}
	return warm.Rate(float64(tokens)) * decay.Rate(progress)
}
