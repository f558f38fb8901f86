package orchestrator

import "github.com/iota-train/iota/protocol/message"

// What a validator's verdicts will call, for tests of this package.

// Burn is burn for a miner by number, from 0.
func (o *Orchestrator) Burn(miner int, reason string) { o.burn(o.Miners[miner].Key, reason) }

// CreditReplay is creditReplay for so many micro-batches of a stage.
func (o *Orchestrator) CreditReplay(key []byte, stage int, batches uint64) {
	o.creditReplay(key, o.unitsOf(stage, batches))
}

// CreditUnmerged is creditUnmerged for a miner by number, from 0.
func (o *Orchestrator) CreditUnmerged(miner, stage int, batches uint64) {
	o.creditUnmerged(o.Miners[miner], stage, batches)
}

// Weights are those of the closing segment and of the others of a log, under an audit share.
func Weights(share, work, total float64) (closing, other float64) {
	return (&Orchestrator{rules: &message.Rules{AuditShare: share}}).weights(work, total)
}

// Replays is how many replays there are of a drawn segment, on average.
const Replays = replays
