package miner

import (
	"fmt"

	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// Inner optimizers.
const (
	adamW = "adamw"
	sgd   = "sgd"
)

// rules are the manifest's rules that bind a miner, checked.
type rules struct {
	perStep     int // micro-batches of an inner step, K
	commitEvery uint64
	recompute   bool
	share       tensor.DType
	aggregate   string
	optimizer   string
	outerRate   float32
	momentum    float32
	clip        float64
	decay       float64
	slots       int    // micro-batches held at once
	window      int    // epochs gone by whose start is kept for audits
	mids        uint64 // the first steps of an epoch, the states of whose commitments are kept
}

// readManifest returns what a manifest says to a miner, or an error if it contradicts itself.
func readManifest(m *message.Manifest) (model.Config, rules, error) {
	config, r := manifest.Shape(m), readRules(m.GetRules())
	if err := manifest.Check(m); err != nil {
		return config, r, fmt.Errorf("manifest: %w", err)
	}
	if _, err := tensor.ParseDType(string(r.share)); err != nil {
		return config, r, fmt.Errorf("manifest: share: %w", err)
	}
	if r.optimizer != adamW && r.optimizer != sgd {
		return config, r, fmt.Errorf("manifest: inner optimizer %q: use %s or %s", r.optimizer, adamW, sgd)
	}
	return config, r, nil
}

func readRules(m *message.Rules) rules {
	r := rules{
		perStep: int(m.GetMicroBatchesPerStep()), commitEvery: uint64(m.GetCommitEvery()), recompute: m.GetRecompute(),
		share: tensor.DType(m.GetShare()), aggregate: m.GetAggregate(), optimizer: m.GetInnerOptimizer(),
		outerRate: float32(m.GetOuterRate()), momentum: float32(m.GetOuterMomentum()),
		clip: m.GetClip(), decay: m.GetWeightDecay(), slots: int(m.GetMaxSlots()),
		mids: uint64(m.GetInnerSteps()),
	}
	if m.GetAuditShare() > 0 {
		r.window = int(m.GetChallengeWindow())
	}
	if r.optimizer == "" {
		r.optimizer = adamW
	}
	return r
}

// queue is the number of gradients that may wait for their acknowledgement.
func (r rules) queue() int { return 2 * max(r.slots, r.perStep) }

// kept is the number of epochs gone by whose private state is held, at most.
func (r rules) kept() int {
	if r.window == 0 {
		return 0
	}
	return r.window + 1
}
