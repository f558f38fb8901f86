package model_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/iota-train/iota/learn/model"
	"pgregory.net/rapid"
)

func TestPresetsHaveTheirSizes(t *testing.T) {
	sizes := map[string][2]float64{ // smallest and largest number of weights
		"nano": {30e3, 60e3}, "tiny": {1.15e6, 1.25e6}, "small": {14.5e6, 15.5e6},
		"1.5b": {1.45e9, 1.55e9}, "15b": {14.5e9, 15.5e9},
	}
	for _, name := range model.Presets() {
		t.Run(name, func(t *testing.T) {
			c, err := model.Preset(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Validate(); err != nil {
				t.Error(err)
			}
			want, n := sizes[name], float64(c.Parameters())
			if n < want[0] || n > want[1] {
				t.Errorf("%v weights, want %v", n, want)
			}
		})
	}
	if len(model.Presets()) != len(sizes) {
		t.Errorf("presets %v", model.Presets())
	}
}

func TestAPresetIsACopy(t *testing.T) {
	c, _ := model.Preset("tiny")
	c.Cuts[0] = 99
	if c, _ = model.Preset("tiny"); c.Cuts[0] == 99 {
		t.Error("changing a preset's cuts changed the preset")
	}
}

func TestAnUnknownPresetIsAnsweredWithTheNames(t *testing.T) {
	_, err := model.Preset("huge")
	if err == nil || !strings.Contains(err.Error(), "nano, tiny, small") {
		t.Errorf("error %v", err)
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		want   string // part of the error
		change func(c *model.Config)
	}{
		{"vocabulary 0", func(c *model.Config) { c.Vocab = 0 }},
		{"width -1", func(c *model.Config) { c.Width = -1 }},
		{"heads 0", func(c *model.Config) { c.Heads = 0 }},
		{"key/value heads 0", func(c *model.Config) { c.KVHeads = 0 }},
		{"feed-forward width", func(c *model.Config) { c.FFN = 1 << 30 }},
		{"sequence length 0", func(c *model.Config) { c.SeqLen = 0 }},
		{"batch 0", func(c *model.Config) { c.Batch = 0 }},
		{"micro-batch of", func(c *model.Config) { c.Batch, c.SeqLen = 1<<20, 1<<20 }},
		{"divide into 5 heads", func(c *model.Config) { c.Heads = 5 }},
		{"even width", func(c *model.Config) { c.Heads = 128 }},
		{"divide among 3 key/value heads", func(c *model.Config) { c.KVHeads = 3 }},
		{"rope theta", func(c *model.Config) { c.RopeTheta = 0 }},
		{"rope theta", func(c *model.Config) { c.RopeTheta = math.NaN() }},
		{"no stages", func(c *model.Config) { c.Cuts = nil }},
		{"stage 1 has 0 blocks", func(c *model.Config) { c.Cuts = []int{1, 0} }},
		{"blocks", func(c *model.Config) { c.Cuts = []int{4000, 4000} }},
		{`wire dtype "fp8"`, func(c *model.Config) { c.Wire = "fp8" }},
		{`boundary "tunnel"`, func(c *model.Config) { c.Boundary = "tunnel" }},
		{"boundary width 128", func(c *model.Config) { c.BoundaryWidth = 128 }},
		{"boundary width 500", func(c *model.Config) { c.Boundary, c.BoundaryWidth = model.SSN, 500 }},
		{"boundary width 0", func(c *model.Config) { c.BoundaryWidth = 0 }},
	} {
		t.Run(c.want, func(t *testing.T) {
			config, _ := model.Preset("tiny")
			c.change(&config)
			err := config.Validate()
			if err == nil {
				t.Fatal("it passed")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, c.want)
			}
		})
	}
}

// limits are the largest numbers that drawConfig draws; the least of each is 1.
type limits struct{ keyHeads, perGroup, halfHead, ffn, vocab, positions, rows int }

// drawConfig draws a config that is valid, however odd.
func drawConfig(t *rapid.T, cuts []int, most limits) model.Config {
	draw := func(name string, most int) int { return rapid.IntRange(1, most).Draw(t, name) }
	c := model.Config{
		KVHeads: draw("key/value heads", most.keyHeads), FFN: draw("feed-forward width", most.ffn),
		Vocab: draw("vocabulary", most.vocab), SeqLen: draw("T", most.positions), Batch: draw("B", most.rows),
		Cuts: cuts, RopeTheta: 100, Boundary: rapid.SampledFrom(boundaries).Draw(t, "boundary"), Wire: "f32",
	}
	c.Heads = c.KVHeads * draw("heads per group", most.perGroup)
	c.Width = c.Heads * 2 * draw("half a head", most.halfHead)
	c.BoundaryWidth = draw("k", c.Width-1)
	return c
}

func TestAnyConfigThatPassesMakesStages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cuts := rapid.SliceOfN(rapid.IntRange(1, 2), 1, 3).Draw(t, "cuts")
		c := drawConfig(t, cuts, limits{keyHeads: 3, perGroup: 3, halfHead: 3, ffn: 20, vocab: 20, positions: 12, rows: 3})
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		p := newPipeline(t, c, engine)
		w, tokens := p.start(1), randomTokens(c, 1)
		loss := p.pass(w, tokens)
		if math.Abs(loss-math.Log(float64(c.Vocab))) > 0.5 {
			t.Errorf("loss %v at the start of %+v", loss, c)
		}
		if err := c.CheckTokens(tokens); err != nil {
			t.Error(err)
		}
	})
}

func TestCutsAreBalanced(t *testing.T) {
	c, _ := model.Preset("tiny")
	for n, want := range map[int][]int{1: {6}, 2: {3, 3}, 3: {2, 2, 2}, 4: {1, 2, 2, 1}, 5: {1, 2, 1, 1, 1}, 6: {1, 1, 1, 1, 1, 1}} {
		got, err := c.WithStages(n)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Cuts); diff != "" {
			t.Errorf("%d stages: %s", n, diff)
		}
	}
	for _, n := range []int{-1, 0, 7} {
		if _, err := c.WithStages(n); err == nil {
			t.Errorf("%d stages of 6 blocks passed", n)
		}
	}
}

func TestBalancedCutsKeepEveryBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.IntRange(1, 60).Draw(t, "blocks")
		c, err := model.Config{Cuts: []int{blocks}}.WithStages(rapid.IntRange(1, blocks).Draw(t, "stages"))
		if err != nil {
			t.Fatal(err)
		}
		low, high := slices.Min(c.Cuts), slices.Max(c.Cuts)
		last := c.Cuts[len(c.Cuts)-1]
		if c.Blocks() != blocks || high-low > 1 || last != low {
			t.Fatalf("cuts %v", c.Cuts)
		}
	})
}

func TestParamsTileTheFlatVectorInNameOrder(t *testing.T) {
	for _, boundary := range boundaries {
		c := odd(boundary, 1, 2, 1)
		total := 0
		for stage := range c.Cuts {
			offset, name := 0, ""
			for _, p := range c.Params(stage) {
				size := 1
				for _, n := range p.Shape {
					size *= n
				}
				if p.Offset != offset || p.Size != size || p.Name <= name {
					t.Errorf("%s: stage %d: %+v after %s, which ends at %d", boundary, stage, p, name, offset)
				}
				offset, name = offset+size, p.Name
			}
			if offset != c.StageSize(stage) {
				t.Errorf("%s: stage %d has %d weights, params end at %d", boundary, stage, c.StageSize(stage), offset)
			}
			total += offset
		}
		if total != c.Parameters() {
			t.Errorf("%s: %d weights in all, stages have %d", boundary, c.Parameters(), total)
		}
	}
	if p := odd(model.None, 1).Params(1); p != nil {
		t.Errorf("a stage that does not exist has %v", p)
	}
}

func TestTokensFromElsewhereAreChecked(t *testing.T) {
	c := odd(model.None, 1)
	good := randomTokens(c, 1)
	if err := c.CheckTokens(good); err != nil {
		t.Error(err)
	}
	for name, tokens := range map[string][]int32{
		"one too few": good[1:],
		"negative":    append([]int32{-1}, good[1:]...),
		"too large":   append([]int32{61}, good[1:]...),
	} {
		if c.CheckTokens(tokens) == nil {
			t.Errorf("%s: it passed", name)
		}
	}
}

func TestCostCountsTheProductsOfAllStages(t *testing.T) {
	c := odd(model.None, 1, 1)
	d, f, kv, rows := 24, 35, 12, 140
	block := 2*d*d + 2*kv*d + 3*f*d + 2*70*d
	if got, want := c.Cost(0), int64(rows*block); got != want {
		t.Errorf("stage 0 costs %d, want %d", got, want)
	}
	if got, want := c.Cost(1), int64(rows*(block+61*d)); got != want {
		t.Errorf("stage 1 costs %d, want %d", got, want)
	}
	pairs := 0 // of a query and a key that it may see, in a row
	for query := range 70 {
		pairs += query + 1
	}
	if got, want := c.CausalCost(0), int64(rows*(block-2*70*d)+2*2*pairs*d); got != want {
		t.Errorf("causal, stage 0 costs %d, want %d", got, want)
	}
	if c.Cost(2) != 0 || c.CausalCost(-1) != 0 {
		t.Error("a stage that is not there costs something")
	}
}
