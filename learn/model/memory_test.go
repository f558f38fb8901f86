package model_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/optim"
)

// preset returns a named config with another boundary.
func preset(t testing.TB, name, boundary string) model.Config {
	t.Helper()
	c, err := model.Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	c.Boundary = boundary
	return c
}

// formulas are those of docs/memory.md, in float32s.
func formulas(c model.Config, stage, threads int) (tape, scratch int) {
	rows, T, d, F, V, L := c.Rows(), c.SeqLen, c.Width, c.FFN, c.Vocab, c.Cuts[stage]
	head := d / c.Heads
	kv, k := head*c.KVHeads, c.WireWidth()
	first, last := stage == 0, stage == c.Stages()-1
	perRow := L*(6*d+2*kv+3*F+c.Heads+2) + 3
	scratchRow := 2*k + 4*d + 2*F + 2*kv
	switch {
	case first:
		perRow += d
	case c.Boundary == model.Bottleneck:
		perRow += k + 2*d
	case c.Boundary == model.SSN:
		perRow += k + d
	default:
		perRow += k
	}
	if last {
		perRow += d + 4
		scratchRow += min(V, 4096)
	} else if c.Boundary == model.Bottleneck {
		perRow += d
	}
	tape = rows*perRow + c.Batch
	scratch = rows*scratchRow + T*head + threads*(128*T+64)
	if c.Boundary == model.SSN {
		scratch += V*d + d*k
	}
	return tape, scratch
}

func TestMemoryIsWhatTheFormulasSay(t *testing.T) {
	for _, name := range model.Presets() {
		for _, boundary := range boundaries {
			c := preset(t, name, boundary)
			for stage := range c.Stages() {
				tape, scratch := formulas(c, stage, 2)
				m := c.Memory(stage, 2)
				lines := 64 * 16 * (c.Cuts[stage] + 1) // each slice is rounded up to a cache line
				for _, f := range []struct {
					part      string
					got, want int
				}{{"tape", m.Tape, 4 * tape}, {"stage", m.Stage, 4 * scratch}} {
					if f.got < f.want || f.got > f.want+lines {
						t.Errorf("%s, %s, stage %d: %s of %d bytes, the formula says %d", name, boundary, stage, f.part, f.got, f.want)
					}
				}
				if m.Vector != 4*c.StageSize(stage) || m.Wire != 4*c.Rows()*c.WireWidth() {
					t.Errorf("%s, %s, stage %d: vector of %d, wire of %d bytes", name, boundary, stage, m.Vector, m.Wire)
				}
			}
		}
	}
}

// heap returns the bytes that are in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestAStageAndItsTapesTakeWhatMemorySays(t *testing.T) {
	for _, boundary := range boundaries {
		c := preset(t, "tiny", boundary)
		for stage := range c.Stages() {
			e := kernel.New(2)
			before := heap()
			s, err := model.NewStage(c, stage, e)
			if err != nil {
				t.Fatal(err)
			}
			tapes := []*model.Tape{s.NewTape(), s.NewTape()}
			got := heap() - before
			m := c.Memory(stage, 2)
			if want := m.Stage + 2*m.Tape; math.Abs(float64(got-want)) > 0.02*float64(want) {
				t.Errorf("%s, stage %d: %d bytes, the formula says %d", boundary, stage, got, want)
			}
			runtime.KeepAlive(s)
			runtime.KeepAlive(tapes)
		}
	}
}

func TestMemoryIsLinearInTheSequence(t *testing.T) {
	for _, boundary := range boundaries {
		c := preset(t, "small", boundary)
		c.Batch = 1
		for stage := range c.Stages() {
			var tape, scratch []int
			for _, c.SeqLen = range []int{512, 1024, 2048, 4096} {
				m := c.Memory(stage, 2)
				tape, scratch = append(tape, m.Tape), append(scratch, m.Stage)
			}
			for part, m := range map[string][]int{"tape": tape, "stage": scratch} {
				if 2*(m[1]-m[0]) != m[2]-m[1] || 2*(m[2]-m[1]) != m[3]-m[2] {
					t.Errorf("%s, stage %d: %s of %d bytes at 512, 1024, 2048 and 4096 positions", boundary, stage, part, m)
				}
			}
		}
	}
}

func TestNothingIsAllocatedPerMicroBatch(t *testing.T) {
	for _, boundary := range boundaries {
		for _, threads := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/threads=%d", boundary, threads), func(t *testing.T) {
				e := kernel.New(threads)
				defer e.Close()
				c := preset(t, "tiny", boundary)
				c.Batch, c.Cuts = 1, []int{1, 1, 1} // enough for products that threads share
				p := newPipeline(t, c, e)
				w, tokens, m, v := p.start(1), randomTokens(c, 1), p.zeros(), p.zeros()
				adam := optim.NewAdamW()
				step := func() {
					p.pass(w, tokens)
					for i, s := range p.stages {
						scale := optim.Clip(optim.NormSquared(s.Params(), p.grads[i]), 1)
						adam.StepScaled(e, s.Params(), w[i], p.grads[i], m[i], v[i], scale, 1e-3, 1)
					}
				}
				if n := testing.AllocsPerRun(2, step); n != 0 {
					t.Errorf("%v allocations", n)
				}
			})
		}
	}
}
