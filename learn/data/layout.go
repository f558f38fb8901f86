package data

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// HeldOutBatches is the number of held-out micro-batches.
const HeldOutBatches = 64

// heldOutShare is the length of a group over the length of its held-out span.
const heldOutShare = 16

// layout says which tokens train and which are held out. The text is cut into equal groups, and the last sixteenth of
// each is its held-out span, so that held-out text comes from all over the text. There are 64 groups, one per held-out
// micro-batch, unless their spans would be shorter than a row: then the groups are halved in number until a row fits,
// and a single group holds out one row at least. Text long enough for 64 groups has the same layout whatever the
// length of a row.
type layout struct {
	tokens, row  int // length of the text, and of one row of a micro-batch: T + 1
	groups, span int // number of groups, and tokens held out at the end of each
}

func newLayout(tokens, row int) layout {
	groups := HeldOutBatches
	for groups > 1 && tokens/groups/heldOutShare < row {
		groups /= 2
	}
	return layout{tokens, row, groups, max(tokens/groups/heldOutShare, row)}
}

// group returns the tokens of group g: those in [from, held) train, those in [held, to) are held out.
func (l layout) group(g int) (from, held, to int) {
	from, to = g*l.tokens/l.groups, (g+1)*l.tokens/l.groups
	return from, to - l.span, to
}

// starts returns the number of positions where a training row may begin.
func (l layout) starts() int {
	n := 0
	for g := range l.groups {
		from, held, _ := l.group(g)
		n += held - from - l.row + 1
	}
	return n
}

// start returns the k-th position where a training row may begin, k in [0, starts()).
func (l layout) start(k int) int {
	for g := 0; ; g++ {
		from, held, _ := l.group(g)
		n := held - from - l.row + 1
		if k < n {
			return from + k
		}
		k -= n
	}
}

// heldOutStart returns where row b of held-out micro-batch j begins, for micro-batches of batch rows. The rows of all
// micro-batches of a group stand at equal distances over its span; they overlap only if it is too short for them.
func (l layout) heldOutStart(j, b, batch int) int {
	perGroup := HeldOutBatches / l.groups
	_, held, to := l.group(j / perGroup)
	rows, r := perGroup*batch, j%perGroup*batch+b
	if rows == 1 {
		return held
	}
	return held + (to-held-l.row)*r/(rows-1)
}

// draw is the random source of one micro-batch: ChaCha8 keyed by the data seed, the number of the micro-batch and a
// name, so that micro-batch i needs no other.
type draw struct{ source *rand.ChaCha8 }

func newDraw(seed, i uint64) draw {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[0:], seed)
	binary.LittleEndian.PutUint64(key[8:], i)
	copy(key[16:], "iota micro-batch")
	return draw{rand.NewChaCha8(key)}
}

// below returns a number in [0, n): the high word of n times 64 random bits. Its bias is below n / 2^64.
func (d draw) below(n int) int {
	high, _ := bits.Mul64(uint64(n), d.source.Uint64())
	return int(high)
}
