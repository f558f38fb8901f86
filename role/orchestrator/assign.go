package orchestrator

import (
	"math"
	"slices"
	"time"

	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// active returns the miners of a stage that can work now, in order of registration.
func (o *Orchestrator) active(stage int) []*miner {
	var list []*miner
	for _, m := range o.Miners {
		if m.Stage == stage && m.active() {
			list = append(list, m)
		}
	}
	return list
}

// active reports whether the miner has a part in the run now: it holds the stage's weights, and it is connected, or
// expected back after a restart of the orchestrator. Work goes to connected ones only.
func (m *miner) active() bool { return m.present() && m.Installed && m.Barred == "" }

func (m *miner) present() bool { return m.Connected || m.SilentUntil != 0 }

// offerStages gives a stage and its checkpoint to every miner that has none, and moves a miner to a stage that has
// been empty for too long.
func (o *Orchestrator) offerStages() {
	if o.Finished {
		return
	}
	if o.Phase == Waiting && o.Now >= o.Until {
		o.rebalance()
		o.Until = o.Now + time.Duration(o.rules.GetPatience())
	}
	for _, m := range o.Miners {
		if !m.Connected || m.Leaving || m.Installed || m.Order != nil || m.Barred != "" || !o.loadable() || o.Now < m.LoadAfter {
			continue
		}
		if m.Stage < 0 {
			m.Stage = o.thinnest()
		}
		o.order(m, message.TaskKind_LOAD, time.Duration(o.rules.GetInstallDeadline()))
	}
}

// loadable reports whether a joiner may be given weights now. During an install it waits for the new checkpoint.
func (o *Orchestrator) loadable() bool { return o.Phase != Installing }

// thinnest returns the stage with the least capacity for its cost; the dice break ties.
func (o *Orchestrator) thinnest() int {
	var best []int
	least := math.Inf(1)
	for _, s := range o.Stages {
		capacity := float64(o.serving(s.Index)) / s.Cost
		switch {
		case capacity < least:
			least, best = capacity, []int{s.Index}
		case capacity == least:
			best = append(best, s.Index)
		}
	}
	return best[o.dice.IntN(len(best))]
}

// rebalance moves the newest miner of the fullest stage to a stage that nobody serves.
func (o *Orchestrator) rebalance() {
	for _, s := range o.Stages {
		if o.serving(s.Index) > 0 {
			continue
		}
		from, most := -1, 1
		for _, t := range o.Stages {
			if n := o.serving(t.Index); n > most {
				from, most = t.Index, n
			}
		}
		if from < 0 {
			continue
		}
		list := slices.DeleteFunc(awake(o.active(from)), func(m *miner) bool { return m.Leaving })
		if len(list) < 2 {
			continue
		}
		m := list[len(list)-1]
		o.alert("miner %d moves from stage %d to stage %d, which had nobody", m.Number+1, from, s.Index)
		o.lose(m)
		m.Installed, m.Acks, m.Stepped, m.Stage = false, nil, 0, s.Index
	}
}

// serving counts the connected miners of a stage, at work or about to be. One that answers nothing, not even the order to
// load its stage, holds nobody's place.
func (o *Orchestrator) serving(stage int) int {
	n := 0
	for _, m := range o.Miners {
		if m.Stage == stage && m.Connected && m.Barred == "" && !m.hung() && !m.Leaving {
			n++
		}
	}
	return n
}

// order gives a miner its one standing order outside flights and shards.
func (o *Orchestrator) order(m *miner, kind message.TaskKind, limit time.Duration) {
	s := o.Stages[m.Stage]
	s.Attempts++
	m.Order = &order{Kind: kind, Attempt: s.Attempts, Until: o.Now + limit}
	o.sendTask(m, o.standingTask(m))
}

// standingTask is the task of a miner's standing order.
func (o *Orchestrator) standingTask(m *miner) *message.Task {
	s := o.Stages[m.Stage]
	t := &message.Task{
		Id:      &message.TaskID{Kind: m.Order.Kind, Epoch: o.Epoch, Stage: uint32(m.Stage)},
		Attempt: m.Order.Attempt,
	}
	switch m.Order.Kind {
	case message.TaskKind_LOAD:
		t.RateBits = math.Float32bits(o.rate())
		if s.Checkpoint != nil {
			t.Inputs = []*message.BlobRef{s.Checkpoint.blob()}
		}
	case message.TaskKind_SHARE:
		t.Plan = o.plan(s)
	case message.TaskKind_INSTALL:
		t.RateBits = math.Float32bits(o.nextRate())
		t.Plan = o.plan(s)
		t.Inputs = s.mergedShards()
	}
	return t
}

// rate is the inner learning rate of the running epoch, nextRate that of the one after: both follow from the run's
// progress at the last install alone.
func (o *Orchestrator) rate() float32 { return math.Float32frombits(o.RateBits) }

func (o *Orchestrator) nextRate() float32 {
	progress := 0.0
	if n := o.rules.GetEpochs(); n > 0 {
		progress = float64(o.Epoch+1) / float64(n)
	} else if t := o.rules.GetRunTime(); t > 0 {
		progress = float64(o.MergeStart) / float64(t)
	}
	return manifest.Rate(o.rules, o.Counters.Tokens, min(1, progress))
}
