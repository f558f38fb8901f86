package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/optim"
)

// stageCase is a stage to measure: one in the middle, which turns a gradient at its output into one at its input and
// those of its weights.
type stageCase struct {
	name   string
	fast   bool
	config model.Config
}

// stageCases are the presets and two shapes of their own: reference is four blocks of a 12.85 M parameter stage, t2048
// the same with one long row.
func stageCases() []stageCase {
	tiny, _ := model.Preset("tiny")
	small, _ := model.Preset("small")
	reference := model.Config{
		Vocab: 256, Width: 512, Heads: 8, KVHeads: 8, FFN: 1408, SeqLen: 256, Batch: 4, Cuts: []int{4, 4, 4},
		RopeTheta: 10000, Boundary: model.None, Wire: "f32",
	}
	long := reference
	long.SeqLen, long.Batch = 2048, 1
	return []stageCase{{"tiny", true, tiny}, {"small", true, small}, {"reference", false, reference}, {"t2048", false, long}}
}

func benchStageCommand() *cobra.Command {
	var only []string
	var asJSON bool
	var threads int
	c := &cobra.Command{
		Use: "stage", Short: "Forward, backward and inner step of a stage, beside the processor's FMA peak", Args: noArgs,
		Example: "  iota bench stage --json\n  iota bench stage --case reference --threads 1",
		RunE: func(c *cobra.Command, _ []string) error {
			cases, err := chooseCases(only)
			if err != nil {
				return err
			}
			if threads < 1 {
				return usagef("--threads %d: use at least 1", threads)
			}
			b := &benchReport{Name: "stage", Config: map[string]any{
				"kernel": kernel.Variant(), "numerics": string(kernel.F32), "threads": threads, "cpus": runtime.NumCPU(),
			}}
			for _, s := range cases {
				if err := s.measure(b, threads); err != nil {
					return err
				}
			}
			return b.print(c.OutOrStdout(), asJSON)
		},
	}
	c.Flags().StringArrayVar(&only, "case", nil, "tiny, small, reference or t2048; repeatable (default: the fast ones)")
	c.Flags().IntVar(&threads, "threads", 1, "threads of the stage")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func chooseCases(only []string) ([]stageCase, error) {
	var chosen []stageCase
	var names []string
	for _, s := range stageCases() {
		names = append(names, s.name)
		if slices.Contains(only, s.name) || (len(only) == 0 && s.fast) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, usagef("--case %q: use %s", name, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}

// measure adds the stage's numbers. The peak is measured right beside them, as other work may share the machine.
func (s stageCase) measure(b *benchReport, threads int) error {
	engine := kernel.New(threads)
	defer engine.Close()
	c, index := s.config, 1
	stage, err := model.NewStage(c, index, engine)
	if err != nil {
		return fmt.Errorf("case %s: %w", s.name, err)
	}
	size, wire := c.StageSize(index), c.Rows()*c.WireWidth()
	w, grad, m, v := make([]float32, size), make([]float32, size), make([]float32, size), make([]float32, size)
	stage.Init(w, 1)
	in, out, dout, din := random(wire), make([]float32, wire), random(wire), make([]float32, wire)
	tokens := make([]int32, c.Batch*(c.SeqLen+1))
	tape := stage.NewTape()
	forward := func() { stage.Forward(w, tokens, in, out, tape) }
	both := func() { forward(); stage.Backward(w, tape, dout, grad, din) }
	adam, t := optim.NewAdamW(), 0
	step := func() { t++; adam.Step(engine, stage.Params(), w, grad, m, v, 1e-3, t) }

	both() // warm up
	name := fmt.Sprintf("%s, %.2f M parameters, %d x %d", s.name, float64(size)/1e6, c.Batch, c.SeqLen)
	peak := kernel.FMAPeak(threads)
	gflop := 2 * float64(c.Cost(index)) / 1e9
	forwardTime, bothTime, stepTime := timed(forward), timed(both), timed(step)
	b.add(name, "forward_time", 1e3*forwardTime, "ms", "", 0)
	b.add(name, "forward_speed", gflop/forwardTime, "GFLOP/s", "fma_peak", peak)
	b.add(name, "forward_backward_time", 1e3*bothTime, "ms", "", 0)
	b.add(name, "forward_backward_speed", 3*gflop/bothTime, "GFLOP/s", "fma_peak", peak)
	b.add(name, "step_time", 1e3*stepTime, "ms", "", 0)
	b.add(name, "allocations", allocations(both), "per micro-batch", "", 0)
	return nil
}

// timed returns the median seconds of a call, over half a second at least.
func timed(f func()) float64 {
	var times []float64
	for began := time.Now(); len(times) < 5 || time.Since(began) < time.Second/2; {
		start := time.Now()
		f()
		times = append(times, time.Since(start).Seconds())
	}
	return median(times)
}

// allocations returns how many objects a call allocates.
func allocations(f func()) float64 {
	const calls = 5
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / calls
}

func random(n int) []float32 {
	dice := rand.New(rand.NewPCG(1, uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(0.1 * dice.NormFloat64())
	}
	return x
}
