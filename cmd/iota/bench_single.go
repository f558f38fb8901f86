package main

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/optim"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// single trains the whole model in one process: the baseline. Its workers compute one micro-batch each at a time on
// threads of their own and step together, which is data-parallel training; one worker is plain training.
type single struct {
	shape   model.Config // one stage
	text    *data.Dataset
	workers []*singleWorker
	w, m, v []float32
	adam    optim.AdamW
	steps   int
}

type singleWorker struct {
	engine *kernel.Engine
	stage  *model.Stage
	tape   *model.Tape
	tokens []int32
	g, sum []float32
	loss   float64
	part   []tensor.Param // that this worker steps
}

const benchSeed = 1

func newSingle(shape model.Config, text *data.Dataset, numerics kernel.Numerics, workers, threads int) (*single, error) {
	whole, err := shape.WithStages(1)
	if err != nil {
		return nil, err
	}
	size := whole.StageSize(0)
	s := &single{shape: whole, text: text, w: make([]float32, size), m: make([]float32, size), v: make([]float32, size), adam: optim.NewAdamW()}
	params := whole.Params(0)
	for i := range workers {
		k := &singleWorker{engine: kernel.NewFor(numerics, threads), tokens: make([]int32, whole.Batch*(whole.SeqLen+1)), g: make([]float32, size), sum: make([]float32, size)}
		if k.stage, err = model.NewStage(whole, 0, k.engine); err != nil {
			return nil, err
		}
		k.tape = k.stage.NewTape()
		for _, p := range params {
			if p.Offset*workers/size == i {
				k.part = append(k.part, p)
			}
		}
		s.workers = append(s.workers, k)
	}
	whole.Init(0, s.w, benchSeed)
	return s, nil
}

func (s *single) close() {
	for _, k := range s.workers {
		k.engine.Close()
	}
}

// each runs f for all workers at once.
func (s *single) each(f func(i int, k *singleWorker)) {
	if len(s.workers) == 1 {
		f(0, s.workers[0])
		return
	}
	var all sync.WaitGroup
	for i, k := range s.workers {
		all.Go(func() { f(i, k) })
	}
	all.Wait()
}

// train goes through so many tokens and steps every perStep micro-batches, a multiple of the workers.
// It ends early when ctx does.
func (s *single) train(ctx context.Context, rules *message.Rules, tokens uint64, perStep int) {
	batches := int(tokens) / s.shape.Rows()
	for next := 0; next < batches && ctx.Err() == nil; next += perStep {
		s.each(func(i int, k *singleWorker) {
			clear(k.sum)
			for b := next + i; b < next+perStep; b += len(s.workers) {
				s.text.MicroBatch(benchSeed, uint64(b), s.shape.Batch, s.shape.SeqLen, k.tokens)
				k.loss = k.stage.Loss(s.w, k.tokens, nil, k.tape)
				k.stage.Backward(s.w, k.tape, nil, k.g, nil)
				k.engine.Add(k.sum, k.g)
			}
		})
		progress := float64(next) / float64(batches)
		s.step(rules, float32(perStep), manifest.Rate(rules, uint64(next*s.shape.Rows()), progress))
	}
}

// step takes one optimiser step with the mean of all workers' gradients; every worker does a part of it.
func (s *single) step(rules *message.Rules, n, lr float32) {
	norms := make([]float64, len(s.workers))
	g := s.workers[0].sum
	s.each(func(i int, k *singleWorker) {
		for _, p := range k.part {
			part := g[p.Offset : p.Offset+p.Size]
			for _, other := range s.workers[1:] {
				k.engine.Add(part, other.sum[p.Offset:p.Offset+p.Size])
			}
			k.engine.Scale(part, 1/n)
		}
		norms[i] = optim.NormSquared(k.part, g)
	})
	total := 0.0
	for _, x := range norms {
		total += x
	}
	s.steps++
	s.adam.Decay = rules.GetWeightDecay()
	scale := optim.Clip(math.Sqrt(total), rules.GetClip())
	s.each(func(_ int, k *singleWorker) {
		s.adam.StepScaled(k.engine, k.part, s.w, g, s.m, s.v, scale, lr, s.steps)
	})
}

// eval is the mean loss over the held-out micro-batches.
func (s *single) eval() float64 {
	sum := 0.0
	k := s.workers[0]
	for j := range uint64(data.HeldOutBatches) {
		s.text.HeldOut(j, s.shape.Batch, s.shape.SeqLen, k.tokens)
		sum += k.stage.Loss(s.w, k.tokens, nil, k.tape)
	}
	return sum / data.HeldOutBatches
}

// singleSpeeds measures both ways to use the processors: tokens per second of one process with a thread per processor,
// and of one-thread workers; in turn, the median of as many runs as the pipeline's. A quarter of the tokens is enough.
func (p *pipelineBench) singleSpeeds(ctx context.Context, rules *message.Rules, tokens uint64) (threaded, parallel float64) {
	perStep := int(rules.GetMicroBatchesPerStep())
	var a, b []float64
	for range p.runs {
		a = append(a, p.singleSpeed(ctx, rules, tokens/4, perStep, 1, cores))
		b = append(b, p.singleSpeed(ctx, rules, tokens/4, perStep*cores, cores, 1))
	}
	p.note("single process: %.0f tokens/s with two threads, %.0f as two workers", median(a), median(b))
	return median(a), median(b)
}

func (p *pipelineBench) singleSpeed(ctx context.Context, rules *message.Rules, tokens uint64, perStep, workers, threads int) float64 {
	s, err := newSingle(p.shape, p.text, p.numerics, workers, threads)
	if err != nil {
		return 0
	}
	defer s.close()
	s.train(ctx, rules, 16*uint64(p.shape.Rows()), perStep) // warm up
	began := time.Now()
	s.train(ctx, rules, tokens, perStep)
	return float64(tokens) / time.Since(began).Seconds()
}

// bestSingle trains with every learning rate of the grid and returns the lowest loss on held-out text, and its rate.
func (p *pipelineBench) bestSingle(ctx context.Context, rules *message.Rules, tokens uint64, perStep int) (loss, lr float64) {
	peak := rules.GetLearningRate()
	defer func() { rules.LearningRate = peak }()
	for _, candidate := range p.lrs {
		workers := 1
		if perStep%2 == 0 {
			workers = 2
		}
		s, err := newSingle(p.shape, p.text, p.numerics, workers, 2/workers)
		if err != nil {
			return 0, 0
		}
		rules.LearningRate = candidate
		s.train(ctx, rules, tokens, perStep)
		eval := s.eval()
		s.close()
		p.note("single process, a step every %d micro-batches, peak %g: loss_eval %.4f", perStep, candidate, eval)
		if lr == 0 || eval < loss {
			loss, lr = eval, candidate
		}
	}
	return loss, lr
}
