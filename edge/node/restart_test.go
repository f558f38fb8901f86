package node_test

import (
	"errors"
	"testing"

	"github.com/iota-train/iota/role/orchestrator"
)

func TestRunTrainsToItsEnd(t *testing.T) {
	s := newSite(t, 3)
	h := s.play(6)
	s.check(h)
	v := h.View()
	if first, last := v.Epochs[0].Loss, v.Epochs[len(v.Epochs)-1].Loss; last >= first {
		t.Errorf("the loss went from %v to %v", first, last)
	}
	if v.Counters.LossEval == 0 || v.Counters.EvalCount != s.manifest.GetRules().GetHeldOut() {
		t.Errorf("loss_eval %v over %d micro-batches", v.Counters.LossEval, v.Counters.EvalCount)
	}
}

// moments are the points of an epoch at which the orchestrator dies.
var moments = []struct {
	name string
	at   func(v orchestrator.View) bool
}{
	{"waiting", func(v orchestrator.View) bool { return v.Phase == orchestrator.Waiting && len(v.Miners) == 6 }},
	{"training", func(v orchestrator.View) bool { return v.Phase == orchestrator.Training && v.InFlight > 3 }},
	{"draining", func(v orchestrator.View) bool { return v.Draining && v.InFlight > 0 }},
	{"sharing", func(v orchestrator.View) bool { return v.Phase == orchestrator.Sharing && v.Epoch == 1 }},
	{"reducing", func(v orchestrator.View) bool { return v.Phase == orchestrator.Reducing && v.Epoch == 1 }},
	{"installing", func(v orchestrator.View) bool { return v.Phase == orchestrator.Installing && v.Epoch == 1 }},
	{"the next epoch", func(v orchestrator.View) bool { return v.Epoch == 2 && v.InFlight > 0 }},
}

func TestOrchestratorRestartsAtEveryPhase(t *testing.T) {
	for _, m := range moments {
		for _, after := range []bool{false, true} {
			for _, everybody := range []bool{false, true} {
				name := m.name
				if after {
					name += ", the event written"
				}
				if everybody {
					name += ", with its miners"
				}
				t.Run(name, func(t *testing.T) { restart(t, m.at, after, everybody) })
			}
		}
	}
}

// restart lets the orchestrator die once, perhaps with all miners, and train on from its journal.
func restart(t *testing.T, at func(orchestrator.View) bool, after, everybody bool) {
	s := newSite(t, 3)
	h := s.open()
	s.journal.after = after
	s.journal.die = func() bool { return at(h.View()) }
	s.start(6)
	if err := s.serve(h); !errors.Is(err, errDied) {
		t.Fatalf("it did not die: %v", err)
	}
	s.journal.die = nil
	if everybody {
		s.leave()
		s.start(6)
	}
	h = s.open()
	if err := s.serve(h); err != nil {
		t.Fatal(err)
	}
	s.leave()
	s.check(h)
}

func TestStopEndsTheRunAndItGoesOnLater(t *testing.T) {
	s := newSite(t, 2)
	h := s.open()
	h.Stop(true)
	if err := s.serve(h); err != nil {
		t.Fatal(err)
	}
	if v := h.View(); !v.Finished || v.Epoch != 0 {
		t.Fatalf("finished %v in epoch %d", v.Finished, v.Epoch)
	}
	h = s.open()
	s.start(3)
	if err := s.serve(h); err != nil {
		t.Fatal(err)
	}
	s.leave()
	s.check(h)
}
