package main

import (
	"testing"

	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/tensor"
)

// A pair of W numbers moves 5 W, a miner of many nearly 4 W, and one that is alone 4 W.
func TestADryRunReckonsWithTheButterfly(t *testing.T) {
	c, err := model.Preset("nano")
	if err != nil {
		t.Fatal(err)
	}
	w := tensor.EncodedSize(c.StageSize(1), tensor.F32)
	for miners, want := range map[int]float64{1: 4, 2: 5, 20: 4.1} {
		if got := float64(bytesOf(c, tensor.F32, 1, 1, miners).merge) / float64(w); got < want-0.02 || got > want+0.02 {
			t.Errorf("%d miners in a stage move %.3f times its weights each, want %v", miners, got, want)
		}
	}
}
