package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"text/tabwriter"
	"time"

	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/butterfly"
)

// plan prints what the run would take of its miners, and starts nothing.
func (o *orchestratorOptions) plan(w io.Writer, c model.Config, text *data.Dataset) error {
	link, err := o.links()
	if err != nil {
		return usageError{err}
	}
	m, _, err := o.manifest(c, text)
	if err != nil {
		return err
	}
	rules := m.GetRules()
	batches, perStage := int(rules.GetInnerSteps()*rules.GetMicroBatchesPerStep()), o.miners/c.Stages()
	fmt.Fprintf(w, "%s: %s parameters in %d stages; text of %s tokens (%s)\n", o.preset, parameters(c.Parameters()), c.Stages(),
		thousands(uint64(text.Tokens())), text.Tokenizer().Name())
	fmt.Fprintf(w, "an epoch is at least %d micro-batches of %d tokens per miner; %d miners, %d in a stage\n\n", batches, c.Rows(),
		o.miners, perStage)
	memory := memoryOf(m, cores, perStage)
	slowest := 0 // bytes
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "stage\tblocks\tparameters\tmemory\tbetween stages\tmerge\tup\tdown\t")
	for s := range c.Stages() {
		b := bytesOf(c, tensor.DType(rules.GetShare()), s, batches, perStage)
		fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", s, c.Cuts[s], parameters(c.StageSize(s)), megabytes(memory[s]),
			megabytes(b.crossing), megabytes(b.merge), megabytes(b.up), megabytes(b.down))
		slowest = max(slowest, b.up, b.down)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nmemory is a miner's, at most; bytes are a miner's in an epoch, both ways together, then sent and received")
	if link.Rate > 0 {
		seconds := float64(slowest) / float64(link.Rate)
		fmt.Fprintf(w, "at %s the slowest stage moves an epoch's bytes in %v\n", link, time.Duration(seconds*float64(time.Second)).Round(10*time.Millisecond))
	}
	return nil
}

// traffic is what a miner moves in an epoch, in bytes.
type traffic struct {
	crossing int // activations and gradients
	merge    int // shares and merged shards
	up, down int
}

// bytesOf reckons with as many micro-batches as a miner must do, and n miners in its stage. Framing and checkpoints are not in it.
func bytesOf(c model.Config, share tensor.DType, stage, batches, n int) traffic {
	wire := tensor.EncodedSize(c.Rows()*c.WireWidth(), tensor.DType(c.Wire)) * batches
	var t traffic
	if stage > 0 { // an activation comes, its gradient goes
		t.down, t.up = t.down+wire, t.up+wire
	}
	if stage < c.Stages()-1 {
		t.down, t.up = t.down+wire, t.up+wire
	}
	t.crossing = t.up + t.down
	m := butterfly.NewPlan(n, c.StageSize(stage), rand.New(rand.NewPCG(0, 0))).Traffic(0)
	up := tensor.EncodedSize(m.Share, share) + tensor.EncodedSize(m.Results, share)
	down := tensor.EncodedSize(m.Fetch, share) + tensor.EncodedSize(m.Install, share)
	t.merge = up + down
	t.up, t.down = t.up+up, t.down+down
	return t
}
