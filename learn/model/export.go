package model

import (
	"fmt"

	"github.com/iota-train/iota/learn/tensor"
)

// Export returns the stage's weights under their Hugging Face names, ready for
// tensor.WriteSafetensors. They may share w's memory: they are valid until w
// changes.
func (s *Stage) Export(w []float32) []tensor.Named { return s.config.Export(s.index, w) }

// Import fills w from a file that holds the stage's weights, and perhaps others.
// It returns an error, and leaves w half filled, when one is missing or has
// another shape.
func (s *Stage) Import(w []float32, f *tensor.File) error { return s.config.Import(s.index, w, f) }

// Export is Stage.Export for a caller that computes nothing.
func (c Config) Export(stage int, w []float32) []tensor.Named {
	params := c.Params(stage)
	named := make([]tensor.Named, 0, len(params))
	for _, p := range params {
		named = append(named, tensor.Float32s(p.Name, p.Shape, w[p.Offset:p.Offset+p.Size]))
	}
	return named
}

// Import is Stage.Import for a caller that computes nothing.
func (c Config) Import(stage int, w []float32, f *tensor.File) error {
	for _, p := range c.Params(stage) {
		t, ok := f.Get(p.Name)
		if !ok {
			return fmt.Errorf("import stage %d: weight %s is missing", stage, p.Name)
		}
		if !equalShape(t.Shape, p.Shape) {
			return fmt.Errorf("import stage %d: weight %s has shape %v, want %v", stage, p.Name, t.Shape, p.Shape)
		}
		x, err := t.Float32s()
		if err != nil {
			return fmt.Errorf("import stage %d: %w", stage, err)
		}
		copy(w[p.Offset:p.Offset+p.Size], x)
	}
	return nil
}

func equalShape(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
