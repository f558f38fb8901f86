package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// pipelineBench compares training across miners with training in one process: the same model, text, micro-batches,
// kernels and processors, and about as many tokens.
type pipelineBench struct {
	tokens uint64
	runs   int
	lrs    []float64 // peaks to try; the best counts, for both sides
	epochs uint32
	rules  message.Rules // overrides, where not 0
	log    io.Writer

	auditShare float64 // of a further series with a validator, 0 for none
	precision  string
	numerics   kernel.Numerics // of the precision

	shape model.Config
	text  *data.Dataset
}

// pipelineRun is one run's outcome.
type pipelineRun struct {
	lr, speed, eval float64
	tokens          uint64
	merging         float64 // share of the time
	audited         float64 // replayed work over all work
}

func benchPipelineCommand() *cobra.Command {
	p := &pipelineBench{}
	var asJSON bool
	c := &cobra.Command{
		Use: "pipeline", Short: "Training across six miners in three stages, beside a single process", Args: noArgs,
		Long: "Trains tiny with boundary none in 3 stages x 2 miners, journal on disk, merges included, and then a single process\n" +
			"on as many tokens: with two threads, and as two data-parallel workers of one thread. Takes several minutes.",
		Example: "  iota bench pipeline --json\n  iota bench pipeline --tokens 100000 --runs 1 --lr 2e-3",
		RunE: func(c *cobra.Command, _ []string) error {
			p.log = c.ErrOrStderr()
			b, err := p.run(c.Context())
			if err != nil {
				return explain(err)
			}
			return b.print(c.OutOrStdout(), asJSON)
		},
	}
	f := c.Flags()
	f.Uint64Var(&p.tokens, "tokens", 400_000, "tokens of a run, or a little more")
	f.IntVar(&p.runs, "runs", 3, "runs of which the median counts")
	f.Float64SliceVar(&p.lrs, "lr", []float64{1.5e-3, 2e-3, 3e-3, 4e-3}, "peak learning rates to choose from")
	f.Uint32Var(&p.rules.InnerSteps, "inner-steps", 0, "H (default: that of iota up)")
	f.Uint32Var(&p.rules.MicroBatchesPerStep, "micro-batches", 0, "K (default: that of iota up)")
	f.Float64Var(&p.rules.OuterRate, "outer-rate", 0, "outer learning rate (default: that of iota up)")
	f.Float64Var(&p.rules.OuterMomentum, "outer-momentum", -1, "outer momentum (default: that of iota up)")
	f.Uint32Var(&p.rules.MaxSlots, "slots", 0, "micro-batches that a miner may hold (default: that of iota up)")
	f.Float64Var(&p.auditShare, "audit-share", 0, "run again with a validator that replays this share of the work")
	f.StringVar(&p.precision, "precision", "f32", "operands of matrix products, on both sides: f32 or bf16")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (p *pipelineBench) run(ctx context.Context) (*benchReport, error) {
	if !(p.auditShare >= 0 && p.auditShare <= 1) {
		return nil, usagef("--audit-share %v: use a share from 0 to 1", p.auditShare)
	}
	if p.tokens < 20_000 || p.runs < 1 || len(p.lrs) == 0 {
		return nil, usagef("use --tokens of 20000 or more, and --runs and --lr of at least one")
	}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	// A first short run tells how many epochs make the tokens, or a little more.
	p.epochs = 4
	pilot, err := p.pipeline(ctx, p.lrs[0], 0)
	if err != nil {
		return nil, err
	}
	p.epochs = max(2, uint32(math.Ceil(1.02*4*float64(p.tokens)/float64(pilot.tokens))))
	best, err := p.bestPipeline(ctx)
	if err != nil {
		return nil, err
	}
	b := p.compare(ctx, best)
	if p.auditShare > 0 {
		err = p.audited(ctx, best, b)
	}
	return b, errors.Join(err, ctx.Err())
}

// audited runs as often with a validator on the same processors, and compares. Without any cost but the replays
// themselves the speed would be 1 / (1 + audited share) of that without.
func (p *pipelineBench) audited(ctx context.Context, without []pipelineRun, b *benchReport) error {
	var with []pipelineRun
	for range without {
		r, err := p.pipeline(ctx, without[0].lr, p.auditShare)
		if err != nil {
			return err
		}
		p.note("pipeline with a validator: %.0f tokens/s, %.3f of the work replayed, loss_eval %.4f", r.speed, r.audited, r.eval)
		with = append(with, r)
	}
	name := "3 stages x 2 miners, a validator"
	speed := func(r pipelineRun) float64 { return r.speed }
	share := medianOf(with, func(r pipelineRun) float64 { return r.audited })
	b.add(name, "tokens_per_second", medianOf(with, speed), "tokens/s", "without_validator", medianOf(without, speed))
	b.add(name, "audited_share", share, "of the work", "audit_share", p.auditShare)
	b.add(name, "speed_limit", 1/(1+share), "of the speed without", "", 0)
	return nil
}

// medianOf is the median of a number of each run.
func medianOf(runs []pipelineRun, f func(pipelineRun) float64) float64 {
	var values []float64
	for _, r := range runs {
		values = append(values, f(r))
	}
	return median(values)
}

func (p *pipelineBench) prepare() error {
	var err error
	if p.numerics, err = kernel.ParsePrecision(p.precision); err != nil {
		return usagef("--%w", err)
	}
	if p.shape, err = model.Preset("tiny"); err != nil {
		return err
	}
	p.shape.Boundary, p.shape.Wire = model.None, "f32"
	tokenizer, err := data.NewTokenizer(data.Bytes)
	if err != nil {
		return err
	}
	p.text, err = data.Sample(tokenizer)
	return err
}

// bestPipeline runs every learning rate once, and the best one as often as asked; it returns those runs.
func (p *pipelineBench) bestPipeline(ctx context.Context) ([]pipelineRun, error) {
	var best pipelineRun
	for _, lr := range p.lrs {
		r, err := p.pipeline(ctx, lr, 0)
		if err != nil {
			return nil, err
		}
		p.note("pipeline, peak %g: %.0f tokens/s (%.1f %% merging), loss_eval %.4f after %d tokens", lr, r.speed, 100*r.merging, r.eval, r.tokens)
		if best.eval == 0 || r.eval < best.eval {
			best = r
		}
	}
	runs := []pipelineRun{best}
	for len(runs) < p.runs {
		r, err := p.pipeline(ctx, best.lr, 0)
		if err != nil {
			return nil, err
		}
		p.note("pipeline again, peak %g: %.0f tokens/s, loss_eval %.4f after %d tokens", r.lr, r.speed, r.eval, r.tokens)
		runs = append(runs, r)
	}
	return runs, nil
}

// compare trains the single processes and puts the numbers side by side.
func (p *pipelineBench) compare(ctx context.Context, runs []pipelineRun) *benchReport {
	o := options{preset: "tiny", miners: 6}
	rules := p.ruled(&o, runs[0].lr)
	perStep := int(rules.GetMicroBatchesPerStep())
	b := &benchReport{Name: "pipeline", Config: map[string]any{
		"preset": "tiny", "boundary": p.shape.Boundary, "wire": p.shape.Wire, "stages": 3, "miners": 6, "micro_batch": fmt.Sprintf("%d x %d", p.shape.Batch, p.shape.SeqLen),
		"epochs": p.epochs, "inner_steps": rules.GetInnerSteps(), "micro_batches_per_step": perStep, "outer_rate": rules.GetOuterRate(),
		"outer_momentum": rules.GetOuterMomentum(), "slots": rules.GetMaxSlots(), "peak_lr": runs[0].lr, "journal": "disk", "runs": len(runs),
		"cpus": cores, "kernel": kernel.Variant(), "numerics": string(p.numerics), "precision": p.precision,
	}}
	pick := func(f func(pipelineRun) float64) float64 { return medianOf(runs, f) }
	tokens := uint64(pick(func(r pipelineRun) float64 { return float64(r.tokens) }))
	speed, eval := pick(func(r pipelineRun) float64 { return r.speed }), pick(func(r pipelineRun) float64 { return r.eval })

	threaded, parallel := p.singleSpeeds(ctx, rules, tokens)
	reference, single := "single_process", max(threaded, parallel)
	b.add("3 stages x 2 miners", "tokens_per_second", speed, "tokens/s", reference, single)
	b.add("single process, two threads", "tokens_per_second", threaded, "tokens/s", reference, single)
	b.add("single process, two workers", "tokens_per_second", parallel, "tokens/s", reference, single)
	b.add("3 stages x 2 miners", "merge_share", pick(func(r pipelineRun) float64 { return r.merging }), "of the time", "", 0)

	wide, wideLR := p.bestSingle(ctx, rules, tokens, 2*perStep)
	narrow, narrowLR := p.bestSingle(ctx, rules, tokens, perStep)
	b.Config["single_peak_lr"], b.Config["single_peak_lr_every_k"] = wideLR, narrowLR
	b.add("3 stages x 2 miners", "loss_eval", eval, "nats/token", reference, wide)
	b.add("3 stages x 2 miners, against a step every K micro-batches", "loss_eval", eval, "nats/token", reference, narrow)
	b.add("3 stages x 2 miners", "tokens", float64(tokens), "tokens", reference, float64(tokens))
	return b
}

func (p *pipelineBench) note(format string, args ...any) { fmt.Fprintf(p.log, format+"\n", args...) }

// ruled are the rules of a run.
func (p *pipelineBench) ruled(o *options, lr float64) *message.Rules {
	o.share, o.aggregate, o.epochs = "f32", "mean", p.epochs
	r := o.rules(p.shape.Stages())
	r.LearningRate = lr
	if v := p.rules.GetInnerSteps(); v > 0 {
		r.InnerSteps = v
	}
	if v := p.rules.GetMicroBatchesPerStep(); v > 0 {
		r.MicroBatchesPerStep = v
	}
	if v := p.rules.GetOuterRate(); v > 0 {
		r.OuterRate = v
	}
	if v := p.rules.GetOuterMomentum(); v >= 0 {
		r.OuterMomentum = v
	}
	if v := p.rules.GetMaxSlots(); v > 0 {
		r.MaxSlots = v
	}
	return r
}

// pipeline trains across miners with the journal on disk, with a validator if there is an audit share.
func (p *pipelineBench) pipeline(ctx context.Context, lr, auditShare float64) (pipelineRun, error) {
	dir, err := os.MkdirTemp("", "iota-bench-*")
	if err != nil {
		return pipelineRun{}, err
	}
	defer os.RemoveAll(dir)
	j, err := journal.Open(filepath.Join(dir, journalName))
	if err != nil {
		return pipelineRun{}, err
	}
	defer j.Close()
	o := &options{preset: "tiny", miners: 6, seeded: true, seed: 1, share: "f32", aggregate: "mean", precision: p.precision}
	if auditShare > 0 {
		o.validators, o.auditShare, o.shardShare = 1, auditShare, 1
	}
	m, secret, err := o.manifest(p.shape, p.text)
	if err != nil {
		return pipelineRun{}, err
	}
	m.Rules, m.Data.Seed = p.ruled(o, lr), benchSeed
	n := &network{manifest: m, journal: j, blobs: store.NewMemory(16 << 30), text: p.text, log: slog.New(slog.NewTextHandler(p.log, nil))}
	for i := range o.miners {
		n.keys = append(n.keys, o.newKey(i))
	}
	for i := range o.validators {
		n.validators = append(n.validators, o.newValidatorKey(i))
	}
	if err := node.Begin(j, m, secret); err != nil {
		return pipelineRun{}, err
	}
	if err := n.open(); err != nil {
		return pipelineRun{}, err
	}
	if err := n.run(context.WithoutCancel(ctx), ctx.Done()); err != nil {
		return pipelineRun{}, err
	}
	if ctx.Err() != nil {
		return pipelineRun{}, fmt.Errorf("bench: %w", ctx.Err())
	}
	return outcome(n.hub.View(), lr), nil
}

// outcome reads a finished run. The first epoch waits for the miners to start, so it does not count for the speed.
func outcome(v orchestrator.View, lr float64) pipelineRun {
	r := pipelineRun{lr: lr, eval: v.Counters.LossEval, tokens: v.Counters.Tokens, audited: ratio(v.Audits.Drawn, v.Audits.Work)}
	var seconds, merging, tokens float64
	for _, e := range slices.Clone(v.Epochs)[1:] {
		seconds, merging, tokens = seconds+e.Seconds, merging+e.MergeSeconds, tokens+float64(e.Tokens)
	}
	r.speed, r.merging = ratio(tokens, seconds), ratio(merging, seconds)
	return r
}
