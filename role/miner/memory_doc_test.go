package miner

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/role/manifest"
)

// documented is what docs/memory.md assumes: the default rules, one thread, two miners per stage.
func documented(c model.Config, stage int) Memory {
	return MemoryOf(c, manifest.DefaultRules(), stage, 1, 2)
}

// row is a line of a table, in megabytes.
func row(name string, bytes ...int) string {
	b := "| " + name + " |"
	for _, n := range bytes {
		format := " %.1f |"
		if n >= 100e6 {
			format = " %.0f |"
		}
		b += fmt.Sprintf(format, float64(n)/1e6)
	}
	return b + "\n"
}

func presetTable(t *testing.T) string {
	b := "| preset, stage | weights | optimizer | gradients | stash | tapes | scratch | wires | merge | total |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
	for _, name := range model.Presets() {
		c, err := model.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, stage := range []int{0, 1, c.Stages() - 1} {
			m := documented(c, stage)
			b += row(fmt.Sprintf("%s, %d", name, stage), m.Weights, m.Optimizer, m.Gradients, m.Stash, m.Tapes, m.Scratch, m.Wires,
				m.Merge, m.Total())
		}
	}
	return b
}

func lengthTable(t *testing.T) string {
	b := "| T | tapes, stage 1 | scratch, stage 1 | total, stage 0 | total, stage 1 | total, stage 2 |\n|---:|---:|---:|---:|---:|---:|\n"
	c, err := model.Preset("small")
	if err != nil {
		t.Fatal(err)
	}
	c.Batch = 1
	for _, c.SeqLen = range []int{512, 1024, 2048, 4096} {
		m := documented(c, 1)
		b += row(fmt.Sprint(c.SeqLen), m.Tapes, m.Scratch, documented(c, 0).Total(), m.Total(), documented(c, 2).Total())
	}
	return b
}

func TestTheDocumentedTablesAreRight(t *testing.T) {
	doc, err := os.ReadFile("../../docs/memory.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{presetTable(t), lengthTable(t)} {
		if !strings.Contains(string(doc), table) {
			t.Errorf("docs/memory.md lacks this table, or has other numbers:\n%s", table)
		}
	}
}

func TestMemoryIsLinearInTheSequence(t *testing.T) {
	c, err := model.Preset("small")
	if err != nil {
		t.Fatal(err)
	}
	c.Batch = 1
	for stage := range c.Stages() {
		var m []int
		for _, c.SeqLen = range []int{512, 1024, 2048, 4096} {
			m = append(m, documented(c, stage).Total())
		}
		if 2*(m[1]-m[0]) != m[2]-m[1] || 2*(m[2]-m[1]) != m[3]-m[2] {
			t.Errorf("stage %d: %d bytes at 512, 1024, 2048 and 4096 positions", stage, m)
		}
	}
}
