package orchestrator

import (
	"slices"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// loaded notes that a joiner holds its stage. One that comes during an install takes the outer step with the others.
func (o *Orchestrator) loaded(m *miner, r *message.Receipt) {
	s := o.Stages[m.Stage]
	if len(r.GetOutputs()) != 1 || (s.Checkpoint != nil && !s.Checkpoint.same(newRef(r.GetOutputs()[0]))) {
		o.alert("miner %d loaded stage %d and got other weights than the checkpoint's", m.Number+1, m.Stage)
		o.refuse(m, r, "these are not the checkpoint's weights")
		return
	}
	m.Installed, m.LastDone = true, o.Now
	switch {
	case o.Phase != Installing:
	case s.Settled || s.Agreed != nil:
		m.Installed = false // it came too late for the step: it loads what the stage ends up with
	default:
		o.order(m, message.TaskKind_INSTALL, time.Duration(o.rules.GetInstallDeadline()))
	}
}

// reloadAfter is how long a checkpoint that could not be had is not asked for again.
const reloadAfter = 5 * time.Second

// loadFailed answers a miner that could not take over its stage. A checkpoint that is missing is nobody's fault: a miner
// that holds it stores it again; without one the stage falls back to the checkpoint before, and without that the
// operator is told what to restore.
func (o *Orchestrator) loadFailed(m *miner, r *message.Receipt) {
	if r.GetFault() != message.Fault_MISSING_INPUT || o.Stages[m.Stage].Checkpoint == nil { // the initial weights are no input
		o.charge(m, "it could not do "+r.GetTask().Key().String()+": "+r.GetNote())
		return
	}
	m.LoadAfter = o.Now + reloadAfter
	s := o.Stages[m.Stage]
	for _, holder := range o.active(s.Index) {
		if holder.Order == nil {
			o.order(holder, message.TaskKind_UPLOAD, time.Duration(o.rules.GetInstallDeadline()))
			return
		}
	}
	switch {
	case len(o.active(s.Index)) > 0: // who holds it is busy: the next attempt asks again
	case s.Previous != nil:
		o.alert("stage %d falls back to its checkpoint before the last, which is missing", s.Index)
		s.Checkpoint, s.CheckpointOf, s.Previous = s.Previous, s.PreviousOf, nil
		m.LoadAfter = 0
	default:
		o.alert("stage %d cannot be loaded: restore blob %x from a backup, or wait for a miner that holds it", s.Index, s.Checkpoint.Hash)
	}
}

// callUploader has one of those who hold the agreed weights store them, at random, another one if that fails.
func (o *Orchestrator) callUploader(s *stage) bool {
	var list []*miner
	for _, i := range s.Installs {
		m := o.Miners[i.Miner]
		if i.Result.same(*s.Agreed) && m.active() && m.Stage == s.Index && !slices.Contains(s.UploadTried, m.Number) {
			list = append(list, m)
		}
	}
	if len(list) == 0 {
		o.fallBack(s, "nobody could store its new checkpoint")
		return true
	}
	m := list[o.dice.IntN(len(list))]
	s.UploadTried = append(s.UploadTried, m.Number)
	o.order(m, message.TaskKind_UPLOAD, time.Duration(o.rules.GetInstallDeadline()))
	return false
}

// uploaded publishes a checkpoint: only now, when it is stored and its hash is the agreed one. Between two installs an
// upload only stores again what is published already.
func (o *Orchestrator) uploaded(m *miner, r *message.Receipt) {
	s := o.Stages[m.Stage]
	want := s.Agreed
	if o.Phase != Installing {
		want = s.Checkpoint
	}
	if want == nil || len(r.GetOutputs()) != 1 || !newRef(r.GetOutputs()[0]).same(*want) {
		o.alert("miner %d stored a checkpoint of stage %d that is not the agreed one", m.Number+1, m.Stage)
		return
	}
	for _, other := range o.Miners {
		if other.Stage == s.Index {
			other.LoadAfter = 0
		}
	}
	if o.Phase != Installing {
		return
	}
	s.Previous, s.PreviousOf = s.Checkpoint, s.CheckpointOf
	s.Checkpoint, s.CheckpointOf, s.Settled = s.Agreed, o.Epoch+1, true
	for _, other := range o.Miners {
		if other.Stage == s.Index && !s.holds(other.Number) {
			other.Installed = false
		}
	}
}

// holds reports whether a miner reported the agreed weights.
func (s *stage) holds(number int) bool {
	return slices.ContainsFunc(s.Installs, func(i install) bool { return i.Miner == number && i.Result.same(*s.Agreed) })
}

// fallBack lets a stage keep its last verified checkpoint: its miners load that one again.
func (o *Orchestrator) fallBack(s *stage, why string) {
	if s.Checkpoint != nil || s.Agreed != nil || len(s.Installs) > 0 {
		o.alert("stage %d keeps its checkpoint of epoch %d: %s", s.Index, s.CheckpointOf, why)
	}
	s.Settled = true
	for _, m := range o.Miners {
		if m.Stage == s.Index {
			m.Installed = false
		}
	}
}

// releaseBlobs gives up the blobs that no epoch used of the kept or the challenge window, except checkpoints that are
// still pointed to and what an open audit reads.
func (o *Orchestrator) releaseBlobs() {
	live := map[string]bool{}
	for _, s := range o.Stages {
		for _, c := range []*ref{s.Checkpoint, s.Previous} {
			if c != nil {
				live[string(c.Hash)] = true
			}
		}
	}
	for _, a := range o.Audits {
		for _, r := range a.reads() {
			live[string(r.Hash)] = true
		}
	}
	kept := uint64(o.rules.GetKeepEpochs())
	if o.rules.GetAuditShare() > 0 {
		kept = max(kept, uint64(o.rules.GetChallengeWindow()))
	}
	var list []*message.BlobRef
	for name, b := range o.Blobs {
		hash := hashOf(name)
		if live[string(hash)] || b.Epoch+kept >= o.Epoch {
			continue
		}
		list = append(list, &message.BlobRef{Hash: hash, Size: b.Size})
		delete(o.Blobs, name)
	}
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(a, b *message.BlobRef) int { return slices.Compare(a.GetHash(), b.GetHash()) })
	o.out = append(o.out, &message.Outbound{Release: list})
}
