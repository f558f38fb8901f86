package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/role/manifest"
)

// payIsEqual: within one epoch a micro-batch brings its stage's share of the cost times the same price, to within 2 %.
// The stage and how much was acknowledged are the books of the laws; amounts are the ledger's entries. What is done in
// probation is priced alike and burned. All merged work is priced, and of the other nothing twice.
func (h *honestRun) payIsEqual() error {
	prices := map[uint64][2]float64{} // least and most per unit of cost, by epoch
	stages, paid := h.stagesOf(), uint64(0)
	for _, e := range h.entries() {
		h.tally(e)
		if e.Kind == ledger.Slash || e.Kind == ledger.Forfeit {
			return fmt.Errorf("entry %+v though nobody cheats", e)
		}
		if e.Kind != ledger.Emission && e.Kind != ledger.Probation {
			continue
		}
		cost, err := h.costOf(e, stages[string(e.Key)])
		if err != nil {
			return err
		}
		paid += e.Batches
		price, known := float64(e.Amount)/cost, prices[e.Of]
		if known[1] == 0 {
			known = [2]float64{price, price}
		}
		known = [2]float64{min(known[0], price), max(known[1], price)}
		prices[e.Of], h.counts.spread = known, max(h.counts.spread, known[1]/known[0]-1)
		if known[1] > 1.02*known[0] {
			return fmt.Errorf("in epoch %d a unit of work brings from %v to %v: %+v", e.Of, known[0], known[1], e)
		}
	}
	c := &h.counts
	if c.late = paid - c.merged; paid < c.merged || c.late > c.unmerged {
		return fmt.Errorf("%d micro-batches are paid, %d were merged and %d were not", paid, c.merged, c.unmerged)
	}
	return nil
}

// entries are those of all pages that left. The laws have read them before.
func (h *honestRun) entries() (list []ledger.Entry) {
	for line := range bytes.Lines(h.sim.laws.pages.Bytes()) {
		var e ledger.Entry
		if err := json.Unmarshal(line, &e); err == nil && e.Kind != "" { // the others end a page
			list = append(list, e)
		}
	}
	return list
}

// tally sums up entries.
func (h *honestRun) tally(e ledger.Entry) {
	c := &h.counts
	switch e.Kind {
	case ledger.Emission:
		c.emissions, c.emitted = c.emissions+1, c.emitted+e.Amount
	case ledger.Probation:
		c.probations++
	case ledger.Unproven:
		c.unproven, c.burned = c.unproven+1, c.burned+e.Amount
	}
}

// stagesOf are the micro-batches that were acknowledged to each key, by epoch and stage.
func (h *honestRun) stagesOf() map[string]map[[2]uint64]uint64 {
	list := map[string]map[[2]uint64]uint64{}
	for w, a := range h.sim.laws.acked {
		if list[a.miner] == nil {
			list[a.miner] = map[[2]uint64]uint64{}
		}
		list[a.miner][[2]uint64{a.epoch, uint64(w.stage)}]++
	}
	return list
}

// costOf is the cost of an entry's micro-batches, in forwards of the model. A key that was moved between stages may have
// late work of the one and merged work of the other in an entry: only then the entry's own sum is taken.
func (h *honestRun) costOf(e ledger.Entry, acked map[[2]uint64]uint64) (float64, error) {
	shape, total, all := manifest.Shape(h.sim.config.Manifest), 0.0, uint64(0)
	var stages []uint64
	for at, n := range acked {
		if at[0] <= e.Of {
			all += n
			if !slices.Contains(stages, at[1]) {
				stages = append(stages, at[1])
			}
		}
	}
	if e.Batches > all {
		return 0, fmt.Errorf("%d micro-batches were acknowledged, and more are paid: %+v", all, e)
	}
	for stage := range shape.Stages() {
		total += float64(shape.Cost(stage))
	}
	if len(stages) == 1 {
		return float64(e.Batches) * float64(shape.Cost(int(stages[0]))) / total, nil
	}
	return float64(e.Work) / ledger.Whole, nil
}

func TestUnmergedWorkIsPaidWhereAReplayFoundItGood(t *testing.T) {
	var c Scenario
	defer c.Close()
	if _, err := c.Do("network stages=3 miners=9 seed=1 epochs=6 c=1 q=0.5 audit=1 validators=4 probation=0 real"); err != nil {
		t.Fatal(err)
	}
	h := honestRun{sim: c.Sim()}
	slow := h.sim.Machine(2)
	slow.Slow(12)
	h.run(time.Hour)
	if err := h.sim.Verify(); err != nil {
		t.Fatal(err)
	}
	if err := h.nobodyIsBlamed(); err != nil {
		t.Fatal(err)
	}
	if err := h.payIsEqual(); err != nil {
		t.Fatal(err)
	}
	pay, n := h.sim.hub.core.Books.Ledger.Find(slow.public), h.counts
	if n.late == 0 || pay.Batches == 0 || pay.Paid == 0 {
		t.Errorf("%d unmerged micro-batches, %d paid; the slow miner has %+v", n.unmerged, n.late, pay)
	}
}

func TestAMinerThatDiedIsPaidForWhatItsNewProcessDidInTheSameEpoch(t *testing.T) {
	var c Scenario
	defer c.Close()
	if _, err := c.Do("network stages=3 miners=9 seed=1 epochs=3 c=1 audit=0.0001 validators=1 probation=0"); err != nil {
		t.Fatal(err)
	}
	s := c.Sim()
	s.Run(func() bool { return s.hub.core.Epoch == 1 && len(s.hub.core.Miners[0].Acks) > 1 }, time.Minute)
	m := s.Machine(1)
	m.Kill()
	m.Revive(0)
	s.Run(s.Finished, time.Hour)
	if err := s.Verify(); err != nil {
		t.Fatal(err)
	}
	h := honestRun{sim: s}
	pay, of := s.hub.core.Books.Ledger.Find(m.public), map[uint64]uint64{}
	for _, e := range h.entries() {
		if e.Kind == ledger.Release && bytes.Equal(e.Key, m.public) {
			of[e.Of] = e.Amount
		}
	}
	if pay.Unproven > 0 || of[1] == 0 {
		t.Errorf("%d micro-units were burned, by epoch it has %v", pay.Unproven, of)
	}
}
