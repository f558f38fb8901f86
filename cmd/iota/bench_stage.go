package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
)

// stageBench is what to measure of a stage, and how.
type stageBench struct {
	cases, precisions []string
	threads           []int
	rounds            int
	work              time.Duration // least time of each kind of work in a round
}

// stageCase is a shape to measure. Its stage is one in the middle, which turns a gradient at its output into one at its
// input and those of all its weights.
type stageCase struct {
	name   string
	config model.Config
}

// middle is the stage of a case that is measured.
const middle = 1

// stageCases are the shapes: reference is four blocks of 12.85 M parameters, t2048 the same with one long row, and the
// others are the presets of those names. No bottleneck belongs to any, so that other engines can compute the same.
func stageCases() []stageCase {
	reference := model.Config{
		Vocab: 256, Width: 512, Heads: 8, KVHeads: 8, FFN: 1408, SeqLen: 256, Batch: 4, Cuts: []int{4, 4, 4},
		RopeTheta: 10000, Boundary: model.None, Wire: "f32",
	}
	long := reference
	long.SeqLen, long.Batch = 2048, 1
	cases := []stageCase{{"reference", reference}, {"tiny", model.Config{}}, {"small", model.Config{}}, {"t2048", long}}
	for i := 1; i <= 2; i++ {
		c, _ := model.Preset(cases[i].name)
		c.Boundary, c.Wire = model.None, "f32"
		cases[i].config = c
	}
	return cases
}

// describe is the shape in words.
func (s stageCase) describe() string {
	c := s.config
	return fmt.Sprintf("%d blocks, d %d, %d heads over %d of keys and values, FFN %d, %.2f M parameters, %d x %d tokens",
		c.Cuts[middle], c.Width, c.Heads, c.KVHeads, c.FFN, float64(c.StageSize(middle))/1e6, c.Batch, c.SeqLen)
}

// gflop is the work of a forward pass, 2 for each multiply-add: with the pairs of query and key that causal attention
// needs, and with all pairs.
func (s stageCase) gflop() (exact, full float64) {
	return 2e-9 * float64(s.config.CausalCost(middle)), 2e-9 * float64(s.config.Cost(middle))
}

func benchStageCommand() *cobra.Command {
	s := &stageBench{}
	var asJSON bool
	c := &cobra.Command{
		Use: "stage", Short: "Forward, backward and inner step of a stage, beside the processor's FMA peak", Args: noArgs,
		Long: "Measures one stage in the middle of a pipeline, with boundary none: forward; forward and backward, from a gradient at\n" +
			"the output to one at the input and those of all weights; and the AdamW step. After a warm-up come rounds in which the\n" +
			"work and the processor's float32 FMA peak, on as many threads, are measured in turn. Times and the peak are medians of\n" +
			"the rounds, the ratio is the median of the rounds' ratios.\n\n" +
			"GFLOP/s are of forward and backward: 2 for each multiply-add, backward twice the forward, and nothing for what attention\n" +
			"computes again. \"exact\" counts the pairs of query and key that causal attention needs, \"full\" all pairs. \"memory\" is what\n" +
			"the stage holds: weights, gradient, moments, tape, scratch. The JSON also has the process's own peak, where the system\n" +
			"tells it; that belongs to all cases so far. Allocations are objects per forward and backward.",
		Example: "  iota bench stage --json\n  iota bench stage --case tiny,t2048 --threads 1 --precision f32",
		RunE: func(c *cobra.Command, _ []string) error {
			cases, err := s.check()
			if err != nil {
				return err
			}
			if err := kernel.Check(); err != nil {
				return err
			}
			var all []*measured
			for _, one := range cases {
				for _, precision := range s.precisions {
					for _, threads := range s.threads {
						m, err := s.measure(c.Context(), one, precision, threads)
						if err != nil {
							return fmt.Errorf("case %s: %w", one.name, err)
						}
						all = append(all, m)
					}
				}
			}
			if !asJSON {
				return printStages(c.OutOrStdout(), all)
			}
			return s.report(cases, all).print(c.OutOrStdout(), true)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&s.cases, "case", []string{"reference"}, "reference, tiny, small or t2048; repeatable")
	f.StringSliceVar(&s.precisions, "precision", []string{"f32", "bf16"}, "f32 or bf16; repeatable")
	f.IntSliceVar(&s.threads, "threads", nil, "threads of the stage; repeatable (default: 1 and all cores)")
	f.IntVar(&s.rounds, "rounds", 5, "rounds of which the median counts")
	f.DurationVar(&s.work, "work", 300*time.Millisecond, "least time of each kind of work in a round")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// check refuses what the command line shows to be wrong and returns the cases.
func (s *stageBench) check() ([]stageCase, error) {
	const most = 1024
	if len(s.threads) == 0 {
		s.threads = []int{1, cores}
	}
	if len(s.cases) == 0 || len(s.precisions) == 0 {
		return nil, usagef("--case and --precision need a value")
	}
	s.threads, s.precisions = unique(s.threads), unique(s.precisions)
	for _, n := range s.threads {
		if n < 1 || n > most {
			return nil, usagef("--threads %d: use 1 to %d", n, most)
		}
	}
	for _, p := range s.precisions {
		if _, err := kernel.ParsePrecision(p); err != nil {
			return nil, usagef("--%w", err)
		}
	}
	if s.rounds < 1 || s.rounds > most {
		return nil, usagef("--rounds %d: use 1 to %d", s.rounds, most)
	}
	if s.work <= 0 {
		return nil, usagef("--work %v: use a time above 0", s.work)
	}
	var chosen []stageCase
	var names []string
	for _, known := range stageCases() {
		names = append(names, known.name)
		if slices.Contains(s.cases, known.name) {
			chosen = append(chosen, known)
		}
	}
	for _, name := range s.cases {
		if !slices.Contains(names, name) {
			return nil, usagef("--case %q: use %s", name, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}

// unique returns the values in their order, each once.
func unique[T comparable](values []T) []T {
	var each []T
	for _, v := range values {
		if !slices.Contains(each, v) {
			each = append(each, v)
		}
	}
	return each
}

// report is the JSON form.
func (s *stageBench) report(cases []stageCase, all []*measured) *benchReport {
	shapes, numerics := map[string]string{}, map[string]string{}
	for _, one := range cases {
		shapes[one.name] = one.describe()
	}
	for _, p := range s.precisions {
		n, _ := kernel.ParsePrecision(p)
		numerics[p] = string(n)
	}
	b := &benchReport{Name: "stage", Config: map[string]any{
		"version": version(), "go": runtime.Version(), "kernel": kernel.Variant(), "numerics": numerics, "cpus": runtime.NumCPU(),
		"cases": shapes, "rounds": s.rounds, "work_seconds": s.work.Seconds(),
	}}
	for _, m := range all {
		b.Results = append(b.Results, m.results()...)
	}
	return b
}

// printStages prints one row per measurement.
func printStages(w io.Writer, all []*measured) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "case\tprecision\tthreads\tfwd ms\tfwd+bwd ms\tstep ms\tGFLOP/s exact\tfull\tFMA peak\tratio exact\tfull\tmemory MB\tallocations")
	for _, m := range all {
		exact, full := m.work.gflop()
		fmt.Fprintf(t, "%s\t%s\t%d\t%.1f\t%.1f\t%.2f\t%.1f\t%.1f\t%.1f\t%.3f\t%.3f\t%.0f\t%.0f\n", m.work.name, m.precision, m.threads,
			1e3*median(m.forward.seconds), 1e3*median(m.both.seconds), 1e3*median(m.step.seconds),
			m.both.speed(3*exact), m.both.speed(3*full), median(m.both.peaks), m.both.ratio(3*exact), m.both.ratio(3*full),
			m.held/1e6, m.allocations)
	}
	return t.Flush()
}
