package model

import (
	"errors"
	"fmt"
	"math"

	"github.com/iota-train/iota/learn/tensor"
)

// Boundaries: how a tensor crosses from one stage to the next.
const (
	None       = "none"       // the block output itself, Width wide
	Bottleneck = "bottleneck" // an encoder, a decoder and k channels of the residual
	SSN        = "ssn"        // coordinates in a fixed subspace of k dimensions
)

// Config is the shape of a model and of its micro-batches, and the way it is
// cut into stages.
type Config struct {
	Vocab   int // tokens
	Width   int // features of the residual stream, d
	Heads   int // query heads
	KVHeads int // key/value heads
	FFN     int // width of the feed-forward part
	SeqLen  int // positions per row, T
	Batch   int // rows per micro-batch, B

	Cuts      []int // blocks in each stage
	RopeTheta float64

	Boundary      string // None, Bottleneck or SSN
	BoundaryWidth int    // k; has no effect on None
	Wire          string // dtype of what crosses: f32, bf16 or int8

	// BufferSeed is public; the fixed buffers of SSN are derived from it.
	BufferSeed uint64
}

// limits bound what a config from elsewhere may ask for, so that no product of
// sizes overflows.
const (
	maxVocab  = 1 << 20
	maxWidth  = 1 << 16
	maxFFN    = 1 << 18
	maxSeqLen = 1 << 20
	maxRows   = 1 << 24 // B*T
	maxBlocks = 1 << 12
)

// Validate returns an error of one line that names the first field that is wrong.
func (c Config) Validate() error {
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"vocabulary", c.Vocab, maxVocab}, {"width", c.Width, maxWidth}, {"heads", c.Heads, maxWidth},
		{"key/value heads", c.KVHeads, maxWidth}, {"feed-forward width", c.FFN, maxFFN},
		{"sequence length", c.SeqLen, maxSeqLen}, {"batch", c.Batch, maxRows},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("%s %d: use 1 to %d", f.name, f.value, f.max)
		}
	}
	switch {
	case c.Batch > maxRows/c.SeqLen:
		return fmt.Errorf("micro-batch of %d x %d tokens: use at most %d", c.Batch, c.SeqLen, maxRows)
	case c.Width%c.Heads != 0:
		return fmt.Errorf("width %d does not divide into %d heads", c.Width, c.Heads)
	case c.headDim()%2 != 0:
		return fmt.Errorf("width %d in %d heads: a head needs an even width, not %d", c.Width, c.Heads, c.headDim())
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("%d heads do not divide among %d key/value heads", c.Heads, c.KVHeads)
	case !(c.RopeTheta >= 1 && c.RopeTheta <= math.MaxFloat32):
		return fmt.Errorf("rope theta %v: use a number from 1", c.RopeTheta)
	}
	if err := c.validateCuts(); err != nil {
		return err
	}
	return c.validateBoundary()
}

func (c Config) validateCuts() error {
	if len(c.Cuts) == 0 {
		return errors.New("no stages: cuts are empty")
	}
	if len(c.Cuts) > maxBlocks {
		return fmt.Errorf("%d stages: use at most %d", len(c.Cuts), maxBlocks)
	}
	for stage, n := range c.Cuts {
		if n < 1 || n > maxBlocks {
			return fmt.Errorf("stage %d has %d blocks: use 1 to %d", stage, n, maxBlocks)
		}
	}
	if c.Blocks() > maxBlocks {
		return fmt.Errorf("%d blocks: use at most %d", c.Blocks(), maxBlocks)
	}
	return nil
}

func (c Config) validateBoundary() error {
	if _, err := tensor.ParseDType(c.Wire); err != nil {
		return err
	}
	switch c.Boundary {
	case None:
		return nil
	case Bottleneck, SSN:
	default:
		return fmt.Errorf("boundary %q: use none, bottleneck or ssn", c.Boundary)
	}
	if c.BoundaryWidth < 1 || c.BoundaryWidth >= c.Width {
		return fmt.Errorf("boundary width %d: use 1 to %d, less than the model's width", c.BoundaryWidth, c.Width-1)
	}
	return nil
}

// CheckTokens returns an error unless tokens are one micro-batch, B rows of T+1,
// all of the vocabulary.
func (c Config) CheckTokens(tokens []int32) error {
	if want := c.Batch * (c.SeqLen + 1); len(tokens) != want {
		return fmt.Errorf("micro-batch of %d tokens, want %d", len(tokens), want)
	}
	for i, token := range tokens {
		if token < 0 || int(token) >= c.Vocab {
			return fmt.Errorf("token %d at %d is not in a vocabulary of %d", token, i, c.Vocab)
		}
	}
	return nil
}

// Blocks returns the number of blocks of all stages.
func (c Config) Blocks() int {
	n := 0
	for _, blocks := range c.Cuts {
		n += blocks
	}
	return n
}

// Stages returns the number of stages.
func (c Config) Stages() int { return len(c.Cuts) }

// Rows returns the positions of one micro-batch, B*T.
func (c Config) Rows() int { return c.Batch * c.SeqLen }

// WireWidth returns the numbers per position that cross a boundary.
func (c Config) WireWidth() int {
	if c.Boundary == None {
		return c.Width
	}
	return c.BoundaryWidth
}

// WithStages returns the same model cut into n stages whose numbers of blocks
// differ by at most one. The last stage, which has the head, and then the first
// are the last to get one more.
func (c Config) WithStages(n int) (Config, error) {
	blocks := c.Blocks()
	if n < 1 || n > blocks {
		return c, fmt.Errorf("%d stages for %d blocks: use 1 to %d", n, blocks, blocks)
	}
	c.Cuts = make([]int, n)
	extra := blocks % n
	for stage := range c.Cuts {
		c.Cuts[stage] = blocks / n
	}
	for i := range extra {
		c.Cuts[(i+1)%n]++ // 1, 2, ..., n-1, 0
	}
	if extra == n-1 && n > 1 { // stages 1 to n-1 have one more: let it be 0 to n-2
		c.Cuts[0]++
		c.Cuts[n-1]--
	}
	return c, nil
}

// Cost returns the multiply-adds of a stage's forward pass over one micro-batch,
// attention counted in full: every query with every key. A backward pass costs
// twice as much.
func (c Config) Cost(stage int) int64 {
	return c.cost(stage, int64(c.SeqLen)*int64(c.SeqLen))
}

// CausalCost is Cost with the exact count of causal attention: every query with
// the keys up to its own position.
func (c Config) CausalCost(stage int) int64 {
	return c.cost(stage, int64(c.SeqLen)*int64(c.SeqLen+1)/2)
}

// cost is that of a stage whose attention meets so many pairs of query and key
// in a row of the micro-batch; each pair has a product for the score and one for
// the mix.
func (c Config) cost(stage int, pairs int64) int64 {
	if stage < 0 || stage >= len(c.Cuts) {
		return 0
	}
	perRow := int64(0)
	for _, p := range c.Params(stage) {
		if len(p.Shape) == 2 && p.Name != embedName {
			perRow += int64(p.Size)
		}
	}
	attention := int64(c.Cuts[stage]) * 2 * pairs * int64(c.Width)
	return perRow*int64(c.Rows()) + attention*int64(c.Batch)
}

func (c Config) headDim() int { return c.Width / c.Heads }

func (c Config) kvWidth() int { return c.KVHeads * c.headDim() }

// firstBlock returns the number of the first block of a stage.
func (c Config) firstBlock(stage int) int {
	n := 0
	for _, blocks := range c.Cuts[:stage] {
		n += blocks
	}
	return n
}

func (c Config) isLast(stage int) bool { return stage == len(c.Cuts)-1 }

// receives and sends say whether block i of a stage decodes or encodes.
func (c Config) receives(stage, i int) bool {
	return c.Boundary == Bottleneck && stage > 0 && i == c.firstBlock(stage)
}

func (c Config) sends(stage, i int) bool {
	return c.Boundary == Bottleneck && !c.isLast(stage) && i == c.firstBlock(stage)+c.Cuts[stage]-1
}

// factored says whether a stage's projections into the residual are U times a
// factor.
func (c Config) factored(stage int) bool { return c.Boundary == SSN && !c.isLast(stage) }
