package main

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/optim"
	"github.com/iota-train/iota/learn/tensor"
)

// measured is what one case gave with one precision on so many threads.
type measured struct {
	work                stageCase
	precision           string
	threads             int
	forward, both, step series
	allocations         float64 // objects per forward and backward
	held, process       float64 // bytes: of the case, and the process's peak so far, 0 where the system does not tell
}

// series is one kind of work, by round, with the FMA peak that was measured right after it.
type series struct{ seconds, peaks []float64 }

// speed is that of so many GFLOP a call.
func (s *series) speed(gflop float64) float64 { return ratio(gflop, median(s.seconds)) }

// ratio is the median share of the peak.
func (s *series) ratio(gflop float64) float64 {
	var ratios []float64
	for i, t := range s.seconds {
		ratios = append(ratios, ratio(gflop/t, s.peaks[i]))
	}
	return median(ratios)
}

// measure warms up and then measures round by round.
func (b *stageBench) measure(ctx context.Context, one stageCase, precision string, threads int) (*measured, error) {
	numerics, err := kernel.ParsePrecision(precision)
	if err != nil {
		return nil, err
	}
	before := heap()
	engine := kernel.NewFor(numerics, threads)
	defer engine.Close()
	s, err := newStageWork(one.config, engine)
	if err != nil {
		return nil, err
	}
	s.both()
	s.step()
	m := &measured{work: one, precision: precision, threads: threads, allocations: allocations(s.both)}
	for range b.rounds {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		m.forward.seconds = append(m.forward.seconds, b.timed(s.forward))
		m.forward.peaks = append(m.forward.peaks, kernel.FMAPeak(threads, b.work))
		m.both.seconds = append(m.both.seconds, b.timed(s.both))
		m.both.peaks = append(m.both.peaks, kernel.FMAPeak(threads, b.work))
		m.step.seconds = append(m.step.seconds, b.timed(s.step))
	}
	m.held = heap() - before
	m.process = processPeak()
	runtime.KeepAlive(s)
	return m, nil
}

// timed returns the mean seconds of a call, over the least time of work.
func (b *stageBench) timed(f func()) float64 {
	began, calls := time.Now(), 0
	for calls == 0 || time.Since(began) < b.work {
		f()
		calls++
	}
	return time.Since(began).Seconds() / float64(calls)
}

// results are the numbers under their stable names.
func (m *measured) results() []benchResult {
	exact, full := m.work.gflop()
	result := func(metric string, value float64, unit string) benchResult {
		return benchResult{Case: m.work.name, Precision: m.precision, Threads: m.threads, Metric: metric, Value: value, Unit: unit}
	}
	speed := func(metric string, s *series, gflop float64) benchResult {
		r := result(metric, s.speed(gflop), "GFLOP/s")
		r.Reference, r.ReferenceValue, r.Ratio = "fma_peak", median(s.peaks), s.ratio(gflop)
		return r
	}
	all := []benchResult{
		result("forward_time", 1e3*median(m.forward.seconds), "ms"),
		speed("forward_speed_exact", &m.forward, exact),
		speed("forward_speed_full", &m.forward, full),
		result("forward_backward_time", 1e3*median(m.both.seconds), "ms"),
		speed("forward_backward_speed_exact", &m.both, 3*exact),
		speed("forward_backward_speed_full", &m.both, 3*full),
		result("step_time", 1e3*median(m.step.seconds), "ms"),
		result("memory", m.held/1e6, "MB"),
		result("allocations", m.allocations, "per micro-batch"),
	}
	if m.process > 0 {
		all = append(all, result("process_peak", m.process/1e6, "MB"))
	}
	return all
}

// stageWork is a stage with all that training needs.
type stageWork struct {
	engine        *kernel.Engine
	stage         *model.Stage
	tape          *model.Tape
	tokens        []int32
	in, out       []float32
	dout, din     []float32
	w, grad, m, v []float32
	adam          optim.AdamW
	steps         int
}

func newStageWork(c model.Config, engine *kernel.Engine) (*stageWork, error) {
	stage, err := model.NewStage(c, middle, engine)
	if err != nil {
		return nil, err
	}
	size, wire := c.StageSize(middle), c.Rows()*c.WireWidth()
	s := &stageWork{
		engine: engine, stage: stage, tape: stage.NewTape(), tokens: make([]int32, c.Batch*(c.SeqLen+1)), adam: optim.NewAdamW(),
		in: random(wire), out: tensor.New(wire), dout: random(wire), din: tensor.New(wire),
		w: tensor.New(size), grad: tensor.New(size), m: tensor.New(size), v: tensor.New(size),
	}
	stage.Init(s.w, 1)
	return s, nil
}

func (s *stageWork) forward() { s.stage.Forward(s.w, s.tokens, s.in, s.out, s.tape) }

func (s *stageWork) both() {
	s.forward()
	s.stage.Backward(s.w, s.tape, s.dout, s.grad, s.din)
}

// step moves the weights so little that all rounds compute with much the same.
func (s *stageWork) step() {
	s.steps++
	s.adam.Step(s.engine, s.stage.Params(), s.w, s.grad, s.m, s.v, 1e-6, s.steps)
}

func random(n int) []float32 {
	dice := rand.New(rand.NewPCG(1, uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(0.1 * dice.NormFloat64())
	}
	return x
}

// allocations returns how many objects a call allocates, of which the runtime's own, now and then, are rounded away.
func allocations(f func()) float64 {
	const calls = 5
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64((after.Mallocs - before.Mallocs) / calls)
}

// heap is how many bytes of objects are in use.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// processPeak is the high-water mark of the process's resident memory in bytes, 0 where the system does not tell.
func processPeak() float64 {
	status, _ := os.ReadFile("/proc/self/status") // Linux has it
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return 1024 * kB
		}
	}
	return 0
}
