package message

import "slices"

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

// Segments cuts the log of one epoch at its commitments between steps, as far as step last: later states are not kept. It
// returns nil if a commitment names a slot whose forward the log does not have.
func Segments(log []*Receipt, last uint64) []Segment {
	var list []Segment
	from := 0
	for from < len(log) {
		to := from + 1
		for to < len(log) && !log[to].resumable(last) {
			to++
		}
		s := Segment{Receipts: []int{0}}
		if from > 0 {
			for _, held := range log[from].GetSlots() {
				at := lastForward(log[:from], held)
				if at < 0 {
					return nil
				}
				s.Receipts = append(s.Receipts, at)
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

// resumable reports whether a receipt commits to a state that is kept.
func (r *Receipt) resumable(last uint64) bool {
	return r.GetTask().GetKind() == TaskKind_STEP && r.GetState() != nil && r.GetTask().GetBatch() <= last
}

// lastForward is the place of the forward that took a slot, or -1.
func lastForward(log []*Receipt, held *Summed) int {
	for i, r := range slices.Backward(log) {
		if id := r.GetTask(); id.GetKind() == TaskKind_FORWARD && id.GetBatch() == held.GetBatch() && r.GetAttempt() == held.GetAttempt() {
			return i
		}
	}
	return -1
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
