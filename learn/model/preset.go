package model

import (
	"fmt"
	"slices"
	"strings"
)

// presets, smallest first. The two largest have the shapes of the published
// runs (docs/paper.md); tokens are bytes in the others.
var presets = []struct {
	name   string
	config Config
}{
	{"nano", Config{
		Vocab: 256, Width: 32, Heads: 2, KVHeads: 1, FFN: 88, SeqLen: 32, Batch: 2,
		Cuts: []int{1, 1, 1}, RopeTheta: 10000,
		Boundary: Bottleneck, BoundaryWidth: 4, Wire: "bf16",
	}},
	{"tiny", Config{
		Vocab: 256, Width: 128, Heads: 4, KVHeads: 2, FFN: 352, SeqLen: 128, Batch: 4,
		Cuts: []int{2, 2, 2}, RopeTheta: 10000,
		Boundary: Bottleneck, BoundaryWidth: 8, Wire: "bf16",
	}},
	{"small", Config{
		Vocab: 256, Width: 384, Heads: 6, KVHeads: 2, FFN: 1088, SeqLen: 256, Batch: 4,
		Cuts: []int{3, 3, 3}, RopeTheta: 10000,
		Boundary: Bottleneck, BoundaryWidth: 12, Wire: "bf16",
	}},
	{"1.5b", Config{
		Vocab: 128256, Width: 2048, Heads: 32, KVHeads: 8, FFN: 8192, SeqLen: 800, Batch: 1,
		Cuts: []int{4, 4, 4, 4}, RopeTheta: 500000,
		Boundary: Bottleneck, BoundaryWidth: 32, Wire: "bf16",
	}},
	{"15b", Config{
		Vocab: 128256, Width: 5120, Heads: 40, KVHeads: 8, FFN: 13824, SeqLen: 800, Batch: 1,
		Cuts: []int{8, 11, 11, 11, 9}, RopeTheta: 500000,
		Boundary: Bottleneck, BoundaryWidth: 80, Wire: "bf16",
	}},
}

// Presets lists the names that Preset knows, smallest model first.
func Presets() []string {
	var names []string
	for _, p := range presets {
		names = append(names, p.name)
	}
	return names
}

// Preset returns a named config, or an error that lists the names.
func Preset(name string) (Config, error) {
	for _, p := range presets {
		if p.name == name {
			c := p.config
			c.Cuts = slices.Clone(c.Cuts)
			return c, nil
		}
	}
	return Config{}, fmt.Errorf("preset %q: use %s", name, strings.Join(Presets(), ", "))
}
