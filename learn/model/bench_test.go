package model_test

import (
	"fmt"
	"testing"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
)

// BenchmarkMicroBatch measures the forward and backward of all stages.
func BenchmarkMicroBatch(b *testing.B) {
	for _, preset := range []string{"nano", "tiny", "small"} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", preset, threads), func(b *testing.B) {
				c, err := model.Preset(preset)
				if err != nil {
					b.Fatal(err)
				}
				e := kernel.New(threads)
				defer e.Close()
				p := newPipeline(b, c, e)
				w, tokens := p.start(1), randomTokens(c, 1)
				flops, seconds := 0.0, 0.0
				for i := range c.Stages() {
					flops += 6 * float64(c.Cost(i))
				}
				for b.Loop() {
					p.pass(w, tokens)
				}
				seconds = b.Elapsed().Seconds() / float64(b.N)
				b.ReportMetric(flops/seconds/1e9, "GFLOP/s")
				b.ReportMetric(1/seconds, "microbatches/s")
			})
		}
	}
}
