package orchestrator_test

import (
	"math"
	"strings"
	"testing"

	"github.com/iota-train/iota/protocol/message"
)

// screened runs one epoch of 3 stages with three miners or more each. In the stage of miner 0, which has three, all
// reductions say of the sources what stats makes of them; it is called with the numbers of source and reducer, both
// counted within the stage from 0.
func screened(t *testing.T, stats func(source, reducer int, st *message.SourceStats)) (n *net, stage []int) {
	t.Helper()
	n = newNet(t, 1, nil)
	n.hostile = true
	for i := range 12 {
		n.join(i)
	}
	for i, m := range n.core.Miners {
		if m.Stage == n.core.Miners[0].Stage {
			stage = append(stage, i)
		}
	}
	n.bend = func(key string, task *message.Task, r *message.Receipt) {
		id := task.GetId()
		if id.GetKind() != message.TaskKind_REDUCE || int(id.GetStage()) != n.core.Miners[0].Stage {
			return
		}
		reducer := -1
		for i, number := range stage {
			if number == n.number(key) {
				reducer = i
			}
		}
		r.ResultNorm2 = 2.6 / 3 // three shares of norm 1 whose products are 0.8
		for source, st := range r.Sources {
			st.Norm2, st.Dot = 1, 2.6/3
			stats(source, reducer, st)
		}
	}
	n.run(40_000)
	return n, stage
}

func TestAShareThatStandsOutIsFlaggedAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		bend         func(st *message.SourceStats)
		norm, cosine float64
		flagged      bool
	}{
		"like the others":      {func(*message.SourceStats) {}, 1, 0.8 / math.Sqrt(0.9), false},
		"ten times as large":   {func(st *message.SourceStats) { st.Norm2, st.Dot = 100, 26.0/3 }, 10, -1, true},
		"twice as large":       {func(st *message.SourceStats) { st.Norm2, st.Dot = 4, 1.6 }, 2, 0.27, false},
		"zero":                 {func(st *message.SourceStats) { st.Norm2, st.Dot = 0, 0 }, 0, 0, true},
		"against the others":   {func(st *message.SourceStats) { st.Dot = -0.3 }, 1, -0.58, true},
		"unlike any":           {func(st *message.SourceStats) { st.Dot = 1.0 / 3 }, 1, 0, true},
		"a number that is not": {func(st *message.SourceStats) { st.Norm2, st.Dot = math.NaN(), math.Inf(-1) }, 0, 0, true},
		"negative":             {func(st *message.SourceStats) { st.Norm2 = -1 }, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			n, stage := screened(t, func(source, _ int, st *message.SourceStats) {
				if source == 2 {
					c.bend(st)
				}
			})
			v := n.core.View()
			for i, number := range stage {
				m := v.Miners[number]
				if m.Screened != (i == 2 && c.flagged) {
					t.Errorf("miner %d: screened is %v, norm %v, cosine %v", number+1, m.Screened, m.Norm, m.Cosine)
				}
				if i == 2 && (math.Abs(m.Norm-c.norm) > 1e-9 || math.Abs(m.Cosine-c.cosine) > 0.1) {
					t.Errorf("norm %v, want %v; cosine %v, want %v", m.Norm, c.norm, m.Cosine, c.cosine)
				}
			}
			alerts := 0
			for _, a := range v.Alerts {
				if strings.Contains(a.Text, "is screened") {
					alerts++
				}
			}
			if want := map[bool]int{true: 1}[c.flagged]; alerts != want || v.Counters.Screened != uint64(want) {
				t.Errorf("%d alerts, %d counted, want %d: %v", alerts, v.Counters.Screened, want, v.Alerts)
			}
			s := n.core.Stages[n.core.Miners[0].Stage]
			if s.Unmerged != 0 || v.Counters.Kicked+v.Counters.NonFinite+v.Counters.Disagreements != 0 {
				t.Errorf("%d unmerged, %+v", s.Unmerged, v.Counters)
			}
			if _, err := n.core.Snapshot(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What one owner says alone is a rumour: its lie about source 2 is refuted, and the honest one's numbers count.
func TestNobodyIsScreenedOnOneOwnersWord(t *testing.T) {
	n, stage := screened(t, func(source, reducer int, st *message.SourceStats) {
		if source == 2 && reducer == 0 {
			st.Norm2 = 1e6
		}
	})
	v := n.core.View()
	if v.Counters.Screened != 0 || v.Counters.ShardsLost != 0 || v.Counters.Disagreements != 2 {
		t.Errorf("%+v", v.Counters)
	}
	for i, number := range stage {
		m := n.core.Miners[number]
		if wrong := map[bool]uint64{true: 2}[i == 0]; m.Disagreed != wrong || m.Agreed != 2-wrong || math.Abs(m.Norm-1) > 1e-9 {
			t.Errorf("miner %d agreed %d times, disagreed %d times, norm %v", number+1, m.Agreed, m.Disagreed, m.Norm)
		}
	}
	if last := v.Alerts[len(v.Alerts)-1].Text; !strings.Contains(last, "misstated the sources of shard") {
		t.Errorf("alert %q", last)
	}
}

func TestALoneResultScreensNobody(t *testing.T) {
	n := newNet(t, 1, nil)
	n.hostile = true
	for i := range 12 {
		n.join(i)
	}
	answered := map[uint32]bool{} // shards of the stage
	n.bend = func(_ string, task *message.Task, r *message.Receipt) {
		if id := task.GetId(); id.GetKind() == message.TaskKind_REDUCE && id.GetStage() == 0 {
			r.ResultNorm2, r.Sources[1].Norm2 = 1, 1e6
			if answered[id.GetShard()] {
				r.Fault, r.Outputs = message.Fault_FAILED, nil
			}
			answered[id.GetShard()] = true
		}
	}
	n.run(40_000)
	if c := n.core.Counters; c.Screened != 0 || c.ShardsLost != 0 || len(answered) != 3 {
		t.Errorf("%d shards, %+v", len(answered), c)
	}
}

// Owners that merged a shard alike and differ in what they say of the sources cannot have it lost.
func TestAShardIsMergedThoughItsSourcesAreDisputed(t *testing.T) {
	n, owners := contest(t, func(owner int, r *message.Receipt) {
		switch owner {
		case 0:
			r.Sources[1].Norm2 = 7
		case 2:
			r.Fault, r.Outputs = message.Fault_FAILED, nil
		}
	})
	c := n.core.Counters
	if a, b := n.core.Miners[owners[0]], n.core.Miners[owners[1]]; c.ShardsLost != 0 || c.Disagreements != 1 || a.Disagreed+b.Disagreed != 2 {
		t.Errorf("%+v, %d and %d disagreements", c, a.Disagreed, b.Disagreed)
	}
	check(t, n, owners, true, 0)
}
