package model_test

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/optim"
	"github.com/iota-train/iota/learn/tensor"
)

// trainedHash hashes losses, gradients and weights of three inner steps from
// weights of which some are subnormal.
func trainedHash(t rapid.TB, c model.Config, numerics kernel.Numerics, threads int) [sha256.Size]byte {
	e := kernel.NewFor(numerics, threads)
	defer e.Close()
	p := newPipeline(t, c, e)
	w, m, v := p.start(7), p.zeros(), p.zeros()
	for _, x := range w {
		for i := 3; i < len(x); i += len(x)/20 + 1 { // few, as they are slow
			x[i] = math.Float32frombits(uint32(i) * 0x9e3779b1 & 0x807fffff)
		}
	}
	h := sha256.New()
	for step := 1; step <= 3; step++ {
		loss := p.pass(w, randomTokens(c, uint64(step)))
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			t.Fatalf("loss %v in step %d", loss, step)
		}
		h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(loss)))
		for stage := range w {
			h.Write(tensor.Bytes(p.grads[stage]))
			optim.NewAdamW().StepScaled(e, c.Params(stage), w[stage], p.grads[stage], m[stage], v[stage], 0.5, 1e-2, step)
			h.Write(tensor.Bytes(w[stage]))
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// oneHash fails unless every variant gives one hash with 1, 2, 3 and 7 threads.
func oneHash(t rapid.TB, c model.Config, numerics kernel.Numerics, variants []string) {
	t.Helper()
	was := kernel.Variant()
	defer func() {
		if err := kernel.Use(was); err != nil {
			t.Fatal(err)
		}
	}()
	var want [sha256.Size]byte
	for i, name := range variants {
		if err := kernel.Use(name); err != nil {
			t.Fatal(err)
		}
		for j, threads := range []int{1, 2, 3, 7} {
			got := trainedHash(t, c, numerics, threads)
			if i == 0 && j == 0 {
				want = got
			}
			if got != want {
				t.Errorf("%s, %s with %d threads differs from %s with one: %+v", numerics, name, threads, variants[0], c)
			}
		}
	}
}

var bothNumerics = []kernel.Numerics{kernel.F32, kernel.BF16}

func TestEveryVariantAndThreadCountTrainsToOneHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cuts := rapid.SampledFrom([][]int{{1}, {1, 1}, {1, 2}}).Draw(t, "cuts")
		c := drawConfig(t, cuts, limits{keyHeads: 2, perGroup: 2, halfHead: 6, ffn: 45, vocab: 40, positions: 18, rows: 2})
		oneHash(t, c, rapid.SampledFrom(bothNumerics).Draw(t, "numerics"), kernel.Variants())
	})
}

// TestStagesWorthSeveralThreadsTrainToOneHash has products that threads share. The
// portable variant, which shares even the smallest, has that in the test above; it
// would take minutes here.
func TestStagesWorthSeveralThreadsTrainToOneHash(t *testing.T) {
	c := model.Config{
		Vocab: 301, Width: 136, Heads: 4, KVHeads: 2, FFN: 267, SeqLen: 130, Batch: 2,
		Cuts: []int{1, 1}, RopeTheta: 10000, Boundary: model.Bottleneck, BoundaryWidth: 17, Wire: "f32",
	}
	assembly := kernel.Variants()[:len(kernel.Variants())-1] // portable is the last one
	for _, numerics := range bothNumerics {
		oneHash(t, c, numerics, assembly)
	}
}
