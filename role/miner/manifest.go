package miner

import (
	"errors"
	"fmt"
	"math"

	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
)

// Shape returns the model that a manifest describes. The fixed buffers of SSN follow from the data seed.
func Shape(manifest *message.Manifest) (model.Config, error) {
	s := manifest.GetModel()
	c := model.Config{
		Vocab: int(s.GetVocab()), Width: int(s.GetWidth()), Heads: int(s.GetHeads()), KVHeads: int(s.GetKvHeads()),
		FFN: int(s.GetFfn()), SeqLen: int(s.GetSeqLen()), Batch: int(s.GetBatch()), RopeTheta: s.GetRopeTheta(),
		Boundary: s.GetBoundary(), BoundaryWidth: int(s.GetBoundaryWidth()), Wire: s.GetWire(),
		BufferSeed: manifest.GetData().GetSeed(),
	}
	for _, blocks := range s.GetCuts() {
		c.Cuts = append(c.Cuts, int(blocks))
	}
	return c, c.Validate()
}

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
	optimizer   string
	outerRate   float32
	momentum    float32
	clip        float64
	decay       float64
	slots       int // micro-batches held at once
}

// maxSlots bounds what a manifest may ask a miner to hold.
const maxSlots = 1 << 12

func readRules(m *message.Rules) (rules, error) {
	r := rules{
		perStep: int(m.GetMicroBatchesPerStep()), commitEvery: uint64(m.GetCommitEvery()), recompute: m.GetRecompute(),
		optimizer: m.GetInnerOptimizer(), outerRate: float32(m.GetOuterRate()), momentum: float32(m.GetOuterMomentum()),
		clip: m.GetClip(), decay: m.GetWeightDecay(), slots: int(m.GetMaxSlots()),
	}
	if r.optimizer == "" {
		r.optimizer = adamW
	}
	var err error
	r.share, err = tensor.ParseDType(m.GetShare())
	switch {
	case err != nil:
		return r, fmt.Errorf("share: %w", err)
	case r.perStep < 1:
		return r, errors.New("no micro-batch per inner step: use at least 1")
	case r.optimizer != adamW && r.optimizer != sgd:
		return r, fmt.Errorf("inner optimizer %q: use %s or %s", r.optimizer, adamW, sgd)
	case r.slots < 1 || r.slots > maxSlots:
		return r, fmt.Errorf("%d slots: use 1 to %d", r.slots, maxSlots)
	}
	for _, x := range []float64{float64(r.outerRate), float64(r.momentum), r.clip, r.decay} {
		if !(x >= 0 && x <= math.MaxFloat32) {
			return r, fmt.Errorf("rates, momentum, clip and decay are finite and not negative, one is %v", x)
		}
	}
	return r, nil
}

// queue is the number of gradients that may wait for their acknowledgement.
func (r rules) queue() int { return 2 * max(r.slots, r.perStep) }
