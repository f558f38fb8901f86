package sim

import (
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"

	"github.com/iota-train/iota/role/orchestrator"
)

// View returns what the run looks like now.
func (s *Sim) View() orchestrator.View { return s.hub.core.View() }

// Prospects returns what would be drawn of a miner's log if the epoch ended now, by number from 1.
func (s *Sim) Prospects(miner int) []orchestrator.Prospect { return s.hub.core.Prospects(miner) }

// Chance is the probability with which work of a weight is drawn, of a miner of so much suspicion.
func (s *Sim) Chance(weight, suspicion float64) float64 { return s.hub.core.Chance(weight, suspicion) }

// Chain returns the last link of the chain.
func (s *Sim) Chain() [32]byte { return s.hub.chain }

// Checkpoints returns the hash of each stage's verified checkpoint, nil for the initial weights.
func (s *Sim) Checkpoints() [][]byte {
	var list [][]byte
	for _, st := range s.hub.core.Stages {
		if st.Checkpoint == nil {
			list = append(list, nil)
			continue
		}
		list = append(list, st.Checkpoint.Hash)
	}
	return list
}

// view shows phase and stages.
func (c *Scenario) view() []string {
	v := c.sim.View()
	lines := []string{
		fmt.Sprintf("%s of epoch %d: %s", v.Phase, v.Epoch, v.Reason),
		fmt.Sprintf("%d micro-batches under way", v.InFlight),
	}
	for _, s := range v.Stages {
		lines = append(lines, fmt.Sprintf("stage %d: %d active, acknowledged %d = merged %d + unmerged %d + undecided %d", s.Index,
			s.Active, s.Acknowledged, s.Merged, s.Unmerged, s.Acknowledged-s.Merged-s.Unmerged))
	}
	return lines
}

// miners shows one line per miner.
func (c *Scenario) miners() []string {
	var lines []string
	for _, m := range c.sim.View().Miners {
		stage := "no stage"
		if m.Stage >= 0 {
			stage = fmt.Sprintf("stage %d", m.Stage)
		}
		line := fmt.Sprintf("miner %d: %s, %s, %d forwards, %d backwards, %d steps, agreement %.2f", m.Number, stage,
			m.State, m.Forwards, m.Backwards, m.Steps, m.Agreement)
		if m.Screened {
			line += ", screened"
		}
		lines = append(lines, line)
	}
	return lines
}

// clasp shows what the losses say of each miner.
func (c *Scenario) clasp() []string {
	var lines []string
	for _, m := range c.sim.View().Miners {
		e, verdict := m.Clasp, ""
		switch {
		case e.Flagged:
			verdict = ", flagged"
		case e.Peers == 0:
			lines = append(lines, fmt.Sprintf("miner %d: %d samples, not compared", m.Number, e.Samples))
			continue
		}
		lines = append(lines, fmt.Sprintf("miner %d: %d samples in stage %d, %+.3f (error %.3f, allowed %.3f), z %.1f%s", m.Number,
			e.Samples, e.Stage, e.Effect, e.Error, e.Allowance, e.Z, verdict))
	}
	return lines
}

// totals shows the counters of the run.
func (c *Scenario) totals() []string {
	v := c.sim.View()
	n := v.Counters
	lines := []string{
		fmt.Sprintf("tokens %d, loss first %.3f, last %.3f, held-out %.3f", n.Tokens, n.LossFirst, n.LossLast, n.LossEval),
		fmt.Sprintf("leases expired %d, rerouted %d, refused late %d", n.LeasesExpired, n.Rerouted, n.RefusedLate),
		fmt.Sprintf("non-finite %d, kicked %d, disagreements %d, shards lost %d", n.NonFinite, n.Kicked, n.Disagreements, n.ShardsLost),
	}
	for _, s := range v.Stages {
		lines = append(lines, fmt.Sprintf("stage %d: acknowledged %d = merged %d + unmerged %d", s.Index, s.Acknowledged, s.Merged,
			s.Unmerged))
	}
	return lines
}

// audits shows what was replayed, and one line per validator and per miner with a verdict.
func (c *Scenario) audits() []string {
	v := c.sim.View()
	a := v.Audits
	lines := []string{
		fmt.Sprintf("drawn: %d segments, %d shards, %d planted; %.2f of all work", a.Segments, a.Shards, a.Planted, a.Drawn/max(a.Work, 1)),
		fmt.Sprintf("%d open, %d without a verdict, %d failed", v.OpenAudits, a.Unverified, a.Mismatches),
	}
	for _, w := range v.Validators {
		lines = append(lines, fmt.Sprintf("validator %d: %s, %d replays, %d found a mismatch, %.2f units", w.Number, w.State, w.Replays, w.Mismatches, w.Units))
	}
	for _, m := range v.Miners {
		if m.Passed+m.Failed > 0 {
			lines = append(lines, fmt.Sprintf("miner %d: %s, %d passed, %d failed", m.Number, m.State, m.Passed, m.Failed))
		}
	}
	return lines
}

// hashes shows what two equal runs must have in common.
func (c *Scenario) hashes() []string {
	h := blake3.New()
	for _, b := range c.sim.Checkpoints() {
		_, _ = h.Write(b) // never fails
	}
	chain := c.sim.Chain()
	return []string{"chain " + hex.EncodeToString(chain[:8]), "weights " + hex.EncodeToString(h.Sum(nil)[:8])}
}

// Seed returns the seed of the simulation.
func (s *Sim) Seed() uint64 { return s.config.Seed }
