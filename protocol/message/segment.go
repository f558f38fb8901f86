package message

import (
	"math"
	"slices"
)

// Segment is a stretch of a log that can be replayed on its own: from the start of its epoch or from a commitment, to the
// next commitment or the end.
type Segment struct {
	// Receipts are places in the log: the LOAD or INSTALL that it begins with, then, if the segment resumes a commitment,
	// the forwards of the slots that are held there and the STEP that made it, then the work of the segment.
	Receipts []int
	// Resume is the place of that STEP in Receipts, 0 for a segment from the start.
	Resume int
	// Step is its number.
	Step uint64
	// Own is the place in Receipts where the segment's work begins.
	Own int
}

// Segments cuts the log of one epoch at its commitments between steps whose states are kept: those as far as step last, and
// the newest. So the closing segment, which has the share, is a short one however long the epoch took. It returns nil if a commitment names a slot whose forward the log does not have, or one twice, or if its step does not come
// after the one before: no log is so long in segments that it cannot be looked through.
func Segments(log []*Receipt, last uint64) []Segment {
	var list []Segment
	from, newest := 0, newestCommitment(log)
	forwards, seen := map[slotName]int{}, 0 // the newest of each slot among the first receipts
	for from < len(log) {
		to := from + 1
		for to < len(log) && to != newest && !log[to].resumable(last) {
			to++
		}
		s := Segment{Receipts: []int{0}}
		if from > 0 {
			for ; seen < from; seen++ {
				if id := log[seen].GetTask(); id.GetKind() == TaskKind_FORWARD {
					forwards[slotName{id.GetBatch(), log[seen].GetAttempt()}] = seen
				}
			}
			held := map[slotName]bool{}
			for _, slot := range log[from].GetSlots() {
				name := slotName{slot.GetBatch(), slot.GetAttempt()}
				at, ok := forwards[name]
				if !ok || held[name] {
					return nil
				}
				held[name] = true
				s.Receipts = append(s.Receipts, at)
			}
			if n := len(list); log[from].GetTask().GetBatch() <= list[n-1].Step {
				return nil
			}
			s.Receipts = append(s.Receipts, from)
			s.Resume, s.Step = len(s.Receipts)-1, log[from].GetTask().GetBatch()
			s.Own = len(s.Receipts)
		}
		for i := from + 1; i <= min(to, len(log)-1); i++ {
			s.Receipts = append(s.Receipts, i)
		}
		list = append(list, s)
		if from = to; from == len(log)-1 {
			break // nothing comes after the last commitment
		}
	}
	return list
}

// resumable reports whether a receipt commits to the state of a step as far as the last one.
func (r *Receipt) resumable(last uint64) bool {
	return r.GetTask().GetKind() == TaskKind_STEP && r.GetState() != nil && r.GetTask().GetBatch() <= last
}

// newestCommitment is the place of a log's last commitment between steps, -1 without one.
func newestCommitment(log []*Receipt) int {
	for i, r := range slices.Backward(log) {
		if r.resumable(math.MaxUint64) {
			return i
		}
	}
	return -1
}

// slotName names the forward that took a slot.
type slotName struct {
	batch   uint64
	attempt uint32
}

// Want is what a replay of a segment is to find at place i, of which r is the receipt: its essence; of the forwards that
// only bring back slots nothing; and of the STEP that it resumes the commitment.
func (s Segment) Want(i int, r *Receipt) *Receipt {
	switch {
	case i == 0 || i > s.Resume:
		return r.Essence(i)
	case i < s.Resume:
		return &Receipt{Task: r.GetTask()}
	}
	return &Receipt{Task: r.GetTask(), State: r.GetState(), Slots: r.GetSlots(), Waiting: r.GetWaiting()}
}
