package model_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/optim"
	"github.com/iota-train/iota/learn/tensor"
)

// TestGolden compares every number of the golden vectors with ours. The vectors
// lie in testdata/golden, or in the folder that IOTA_GOLDEN names.
func TestGolden(t *testing.T) {
	dir := goldenDir()
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no *.safetensors in %s", dir)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			g := openGolden(t, path)
			g.checkNames()
			g.checkPass()
			g.checkTraining()
			t.Log(g.worst)
		})
	}
}

// goldenDir returns the folder of the vectors. A relative IOTA_GOLDEN is taken
// from the repository's root, where go test is usually called.
func goldenDir() string {
	dir := os.Getenv("IOTA_GOLDEN")
	switch {
	case dir == "":
		return filepath.Join("testdata", "golden")
	case filepath.IsAbs(dir):
		return dir
	}
	return filepath.Join("..", "..", dir)
}

// golden is one case file, with a model set up for it.
type golden struct {
	*testing.T
	file   *tensor.File
	config model.Config
	train  struct {
		LR    float64 `json:"learning_rate"`
		Beta1 float64 `json:"beta1"`
		Beta2 float64 `json:"beta2"`
		Eps   float64 `json:"eps"`
		Decay float64 `json:"weight_decay"`
		Clip  float64 `json:"clip_norm"`
		K     int     `json:"micro_batches_per_step"`
		Steps int     `json:"steps"`
	}
	engine *kernel.Engine
	run    *pipeline
	w      [][]float32
	worst  worst
}

// worst holds the largest error of each kind, for the log.
type worst map[string]float64

func (w worst) String() string {
	text := ""
	for _, kind := range slices.Sorted(func(yield func(string) bool) {
		for k := range w {
			if !yield(k) {
				return
			}
		}
	}) {
		text += fmt.Sprintf("%s %.1e  ", kind, w[kind])
	}
	return text
}

func openGolden(t *testing.T, path string) *golden {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g := &golden{T: t, worst: worst{}}
	if g.file, err = tensor.ReadSafetensors(b); err != nil {
		t.Fatal(err)
	}
	var c struct {
		Vocab         int     `json:"vocab_size"`
		Width         int     `json:"hidden_size"`
		Heads         int     `json:"num_attention_heads"`
		KVHeads       int     `json:"num_key_value_heads"`
		FFN           int     `json:"intermediate_size"`
		Theta         float64 `json:"rope_theta"`
		Boundary      string  `json:"boundary"`
		BoundaryWidth int     `json:"boundary_width"`
		Cuts          []int   `json:"stage_cuts"`
		SeqLen        int     `json:"seq_len"`
		Batch         int     `json:"batch_size"`
	}
	g.json("config", &c)
	g.json("training", &g.train)
	g.config = model.Config{
		Vocab: c.Vocab, Width: c.Width, Heads: c.Heads, KVHeads: c.KVHeads, FFN: c.FFN,
		SeqLen: c.SeqLen, Batch: c.Batch, Cuts: c.Cuts, RopeTheta: c.Theta,
		Boundary: c.Boundary, BoundaryWidth: c.BoundaryWidth, Wire: "f32",
	}
	g.engine = kernel.New(1)
	g.run = newPipeline(t, g.config, g.engine)
	for stage, s := range g.run.stages {
		g.w = append(g.w, g.flat("init/", stage))
		if c.Boundary == model.SSN {
			s.SetBuffers(g.floats("buffer/boundary.U"), g.floats("buffer/boundary.table"))
		}
	}
	return g
}

func (g *golden) json(key string, to any) {
	if err := json.Unmarshal([]byte(g.file.Metadata[key]), to); err != nil {
		g.Fatalf("metadata %s: %v", key, err)
	}
}

func (g *golden) tensor(name string) tensor.Named {
	n, ok := g.file.Get(name)
	if !ok {
		g.Fatalf("no tensor %s", name)
	}
	return n
}

func (g *golden) floats(name string) []float32 {
	x, err := g.tensor(name).Float32s()
	if err != nil {
		g.Fatal(err)
	}
	return x
}

func (g *golden) doubles(name string) []float64 {
	x, err := g.tensor(name).Float64s()
	if err != nil {
		g.Fatal(err)
	}
	return x
}

// flat reads a stage's weights, stored one by one under a prefix.
func (g *golden) flat(prefix string, stage int) []float32 {
	var w []float32
	for _, p := range g.config.Params(stage) {
		if diff := cmp.Diff(p.Shape, g.tensor(prefix+p.Name).Shape); diff != "" {
			g.Fatalf("shape of %s: %s", p.Name, diff)
		}
		w = append(w, g.floats(prefix+p.Name)...)
	}
	return w
}

// tokens returns micro-batch i.
func (g *golden) tokens(i int) []int32 {
	x, err := g.tensor("tokens").Int32s()
	if err != nil {
		g.Fatal(err)
	}
	n := g.config.Batch * (g.config.SeqLen + 1)
	return x[i*n : (i+1)*n]
}

// near checks max|got-want| / max|want| against a tolerance.
func (g *golden) near(kind, name string, got, want []float32, tolerance float64) {
	g.Helper()
	if len(got) != len(want) {
		g.Fatalf("%s: %d numbers, want %d", name, len(got), len(want))
	}
	var difference, largest float64
	for i := range want {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if !(d <= difference) { // NaN too
			difference = d
		}
		largest = max(largest, math.Abs(float64(want[i])))
	}
	e := difference / max(largest, 1e-30)
	if !(e <= tolerance) {
		g.Errorf("%s: relative error %.2g, want at most %.0e", name, e, tolerance)
	}
	g.worst[kind] = max(g.worst[kind], e)
}

func (g *golden) nearLoss(kind string, got, want float64) {
	g.Helper()
	e := math.Abs(got-want) / math.Abs(want)
	if !(e <= 2e-6) {
		g.Errorf("%s: %v, want %v: relative error %.2g", kind, got, want, e)
	}
	g.worst[kind] = max(g.worst[kind], e)
}

// eachParam compares flat vectors of every stage tensor by tensor.
func (g *golden) eachParam(prefix string, flat [][]float32, compare func(name string, got, want []float32)) {
	for stage, x := range flat {
		for _, p := range g.config.Params(stage) {
			compare(prefix+p.Name, x[p.Offset:p.Offset+p.Size], g.floats(prefix+p.Name))
		}
	}
}

// checkNames compares the weights of each stage with the file's list.
func (g *golden) checkNames() {
	var want [][]string
	g.json("stage_weights", &want)
	for stage := range want {
		var got []string
		for _, p := range g.config.Params(stage) {
			got = append(got, p.Name)
		}
		slices.Sort(want[stage])
		if diff := cmp.Diff(want[stage], got); diff != "" {
			g.Errorf("weights of stage %d: %s", stage, diff)
		}
	}
}

// checkPass compares one forward and backward with the initial weights.
func (g *golden) checkPass() {
	r, c := g.run, g.config
	loss := r.pass(g.w, g.tokens(0))
	g.nearLoss("loss", loss, g.doubles("loss")[0])
	for j := range c.Stages() - 1 {
		g.near("wire", "wire/"+strconv.Itoa(j), r.wires[j], g.floats("wire/"+strconv.Itoa(j)), 1e-5)
		g.near("wire_grad", "wire_grad/"+strconv.Itoa(j), r.wireGrads[j], g.floats("wire_grad/"+strconv.Itoa(j)), 3e-5)
	}
	g.eachParam("grad/", r.grads, func(name string, got, want []float32) { g.near("grad", name, got, want, 3e-5) })

	last := c.Stages() - 1
	logits := make([]float32, c.Rows()*c.Vocab)
	r.stages[last].Logits(g.w[last], g.tokens(0), r.wireInto(last), logits)
	g.near("logits", "logits", logits, g.floats("logits"), 1e-5)
}

// checkTraining compares the inner steps.
func (g *golden) checkTraining() {
	adam := optim.AdamW{Beta1: g.train.Beta1, Beta2: g.train.Beta2, Eps: g.train.Eps, Decay: g.train.Decay}
	losses, norms := g.doubles("losses"), g.doubles("grad_norms")
	m, v, sum := g.run.zeros(), g.run.zeros(), g.run.zeros()
	for step := range g.train.Steps {
		for _, x := range sum {
			clear(x)
		}
		for j := step * g.train.K; j < (step+1)*g.train.K; j++ {
			g.nearLoss("losses", g.run.pass(g.w, g.tokens(j)), losses[j])
			for stage, x := range sum {
				kernel.Add(x, g.run.grads[stage])
			}
		}
		for stage, x := range sum {
			params := g.config.Params(stage)
			kernel.Scale(x, 1/float32(g.train.K))
			norm := math.Sqrt(optim.NormSquared(params, x))
			want := norms[step*g.config.Stages()+stage]
			if e := math.Abs(norm-want) / want; !(e <= 3e-5) {
				g.Errorf("gradient norm of stage %d in step %d: %v, want %v", stage, step, norm, want)
			}
			kernel.Scale(x, optim.Clip(norm, g.train.Clip))
			adam.Step(g.engine, params, g.w[stage], x, m[stage], v[stage], float32(g.train.LR), step+1)
		}
	}
	g.eachParam("adam_m/", m, func(name string, got, want []float32) { g.near("adam_m", name, got, want, 3e-4) })
	g.eachParam("adam_v/", v, func(name string, got, want []float32) { g.near("adam_v", name, got, want, 3e-4) })
	g.eachParam("final/", g.w, g.nearWeights)
}

// nearWeights checks the largest and the root mean square difference.
func (g *golden) nearWeights(name string, got, want []float32) {
	var largest, squares float64
	for i := range want {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if !(d <= largest) {
			largest = d
		}
		squares += d * d
	}
	rms := math.Sqrt(squares / float64(len(want)))
	if !(largest <= 1e-3) || !(rms <= 5e-6) {
		g.Errorf("%s: largest difference %.2g, want at most 1e-3; rms %.2g, want at most 5e-6", name, largest, rms)
	}
	g.worst["final max"] = max(g.worst["final max"], largest)
	g.worst["final rms"] = max(g.worst["final rms"], rms)
}
