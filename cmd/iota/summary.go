package main

import (
	"fmt"
	"strings"
	"time"
)

// memory prints what a run will hold before it starts.
func (s *screen) memory(perStage []int) {
	var parts []string
	for stage, n := range perStage {
		parts = append(parts, fmt.Sprintf("stage %d %s", stage, megabytes(n)))
	}
	s.line("memory per miner, at most: %s", strings.Join(parts, ", "))
}

// megabytes writes an amount of memory for people.
func megabytes(n int) string {
	switch mb := float64(n) / 1e6; {
	case mb >= 1e4:
		return fmt.Sprintf("%.0f GB", mb/1e3)
	case mb >= 1e3:
		return fmt.Sprintf("%.1f GB", mb/1e3)
	case mb >= 10:
		return fmt.Sprintf("%.0f MB", mb)
	default:
		return fmt.Sprintf("%.1f MB", mb)
	}
}

// summary prints what came of a run, in words.
func (s *screen) summary(r *report) {
	s.line("")
	s.line("%s", strings.Join(r.words(), "\n"))
}

func (r *report) words() []string {
	seconds := time.Duration(r.Seconds * float64(time.Second)).Round(100 * time.Millisecond)
	lines := []string{fmt.Sprintf("Trained %s (%s parameters in %d stages) with %d miners for %v: %d epochs, %s tokens, %s per second.",
		r.Preset, parameters(r.Parameters), r.Stages, len(r.Miners), seconds, len(r.Epochs), thousands(r.Tokens), thousands(uint64(r.TokensPerSecond)))}
	if r.Tokens == 0 {
		return append(lines, "Nothing was learnt yet: the run was stopped before the first micro-batch came back.")
	}
	loss := fmt.Sprintf("The loss began at %.3f nats per token", r.LossFirst)
	if r.LossLast > 0 {
		loss += fmt.Sprintf(" and was %.3f in the last epoch", r.LossLast)
	}
	if r.LossEval > 0 {
		loss += fmt.Sprintf("; on text never trained on it is %.3f", r.LossEval)
	}
	lines = append(lines, loss+".")
	if r.Wire.ActivationBytes > 0 {
		lines = append(lines, fmt.Sprintf("Between stages %.0f bytes travelled per token, %.4g times less than uncompressed.",
			r.Wire.ActivationBytesPerToken, r.Wire.CompressionRatio))
	}
	if a := r.Audits; len(r.Validators) > 0 {
		lines = append(lines, fmt.Sprintf("Validators were to replay %d segments of miners' logs, %.1f%% of all work, and %d merged shards: %d did not hold, %d ended without a verdict.",
			a.Segments, 100*a.Share, a.Shards, a.Mismatches, a.Unverified))
	}
	return append(lines, r.troubles())
}

// troubles says what did not go smoothly.
func (r *report) troubles() string {
	var lost, disputed int
	for _, e := range r.Epochs {
		lost, disputed = lost+e.ShardsLost, disputed+e.Disagreements
	}
	var parts []string
	add := func(n uint64, one, more, what string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one+" "+what)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s %s", n, more, what))
		}
	}
	was := func(n uint64, noun, what string) { add(n, noun+" was", noun+"s were", what) }
	was(uint64(lost), "shard", "lost")
	was(uint64(disputed), "shard", "disputed")
	add(r.Faults.LeasesExpired, "lease", "leases", "expired")
	was(r.Faults.NonFinite, "result", "not finite")
	add(r.Faults.Refuted, "claim against others was", "claims against others were", "false")
	add(r.Faults.Unmerged, "micro-batch was", "micro-batches were", "not merged")
	was(r.Faults.Kicked, "participant", "withdrawn")
	if len(parts) == 0 {
		return "No shard was lost and no two miners disagreed."
	}
	return "Not all went smoothly: " + strings.Join(parts, ", ") + "."
}
