package orchestrator

import (
	"bytes"
	"slices"

	"github.com/iota-train/iota/protocol/message"
)

// asOrdered reports whether a receipt says that a task was done as it was ordered: from these inputs, at this rate, by
// this plan. A replay takes a log at its word for what was to be done, so work that was done otherwise must not count:
// else a miner could compute something cheaper, and truthfully say so.
func asOrdered(t *message.Task, r *message.Receipt) bool {
	same := slices.EqualFunc(r.BlobHashes(), t.GetInputs(), func(hash []byte, ref *message.BlobRef) bool { return bytes.Equal(hash, ref.GetHash()) })
	switch t.GetId().GetKind() {
	case message.TaskKind_LOSS, message.TaskKind_BACKWARD:
		return same && r.GetRerun() == t.GetRerun() && r.GetPassing() == t.GetPassing()
	case message.TaskKind_LOAD:
		return same && r.GetRateBits() == t.GetRateBits()
	case message.TaskKind_SHARE:
		return bytes.Equal(message.Encode(r.GetPlan()), message.Encode(t.GetPlan()))
	case message.TaskKind_INSTALL, message.TaskKind_OUTER:
		return same && r.GetRateBits() == t.GetRateBits() && bytes.Equal(message.Encode(r.GetPlan()), message.Encode(t.GetPlan()))
	case message.TaskKind_REDUCE:
		bounds, shard := t.GetPlan().GetBounds(), t.GetId().GetShard()
		return same && slices.Equal(r.GetWeights(), t.GetWeights()) && r.GetElements() == bounds[shard+1]-bounds[shard]
	}
	return same
}
