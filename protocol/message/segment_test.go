package message

import "testing"

func TestALogThatCommitsToWhatCannotBeHasNoSegments(t *testing.T) {
	forward := &Receipt{Task: &TaskID{Kind: TaskKind_FORWARD, Batch: 7}, Attempt: 1}
	commit := func(step uint64, slots ...uint64) *Receipt {
		r := &Receipt{Task: &TaskID{Kind: TaskKind_STEP, Batch: step}, State: []byte("state")}
		for _, batch := range slots {
			r.Slots = append(r.Slots, &Summed{Batch: batch, Attempt: 1})
		}
		return r
	}
	begin, end := &Receipt{Task: &TaskID{Kind: TaskKind_LOAD}}, &Receipt{Task: &TaskID{Kind: TaskKind_SHARE}}
	for _, c := range []struct {
		claim string
		log   []*Receipt
		want  int
	}{
		{"two segments", []*Receipt{begin, forward, commit(1, 7), end}, 2},
		{"three segments, a slot held across two", []*Receipt{begin, forward, commit(1, 7), commit(2, 7), end}, 3},
		{"of the commitments beyond the kept ones only the newest cuts", []*Receipt{begin, commit(9), commit(11), commit(12), commit(13), end}, 3},
		{"a slot without a forward", []*Receipt{begin, forward, commit(1, 8), end}, 0},
		{"a slot whose forward comes later", []*Receipt{begin, commit(1, 7), forward, end}, 0},
		{"a slot twice", []*Receipt{begin, forward, commit(1, 7, 7), end}, 0},
		{"a step twice", []*Receipt{begin, forward, commit(1, 7), commit(1, 7), end}, 0},
	} {
		if got := Segments(c.log, 10); len(got) != c.want {
			t.Errorf("%s: %d segments, want %d", c.claim, len(got), c.want)
		}
	}
}
