package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
	"github.com/iota-train/iota/sim"
	"github.com/iota-train/iota/sim/adversary"
)

// The law gives what dice give: tasks that are false at a rate, charges, and segments that are drawn with their chances.
func TestTheLawOfACheatIsWhatDiceGive(t *testing.T) {
	chance := func(weight, suspicion float64) float64 { return min(1, 0.2*weight*suspicion) }
	log := madeUpLog(6, 4, 2)
	for kind, law := range cheatLaws {
		for _, rate := range []float64{0.1, 0.4, 1} {
			p := &prospect{law: law, kind: kind, rate: rate, shardShare: 0.5, chance: chance}
			p.start()
			found := 1 - float64((1-p.epoch(0, [][]orchestrator.Prospect{log}))*(1-p.epoch(1, [][]orchestrator.Prospect{log})))
			const trials = 20_000
			dice, hits := rand.New(rand.NewPCG(1, uint64(100*rate))), 0.0
			for range trials {
				c := &cheater{p: p, dice: dice}
				if c.foundIn(0, log) || c.foundIn(1, log) {
					hits++
				}
			}
			if off := math.Abs(hits/trials - found); off > 4*math.Sqrt(found*(1-found)/trials)+1e-9 {
				t.Errorf("%s at rate %v: found in two epochs by the law %.4f, by dice %.4f", kind, rate, found, hits/trials)
			}
		}
	}
}

// madeUpLog has segments of so many losses each, the last one also a share and two reductions.
func madeUpLog(losses ...int) (log []orchestrator.Prospect) {
	receipt := func(kind message.TaskKind) *message.Receipt {
		return &message.Receipt{Task: &message.TaskID{Kind: kind}, Outputs: []*message.BlobRef{{}}, Sources: []*message.SourceStats{{}}}
	}
	for _, n := range losses {
		s := orchestrator.Prospect{Weight: 0.8}
		for range n {
			s.Own = append(s.Own, receipt(message.TaskKind_LOSS))
		}
		log = append(log, s)
	}
	last := &log[len(log)-1]
	last.Closing, last.Weight = true, 2
	for _, kind := range []message.TaskKind{message.TaskKind_SHARE, message.TaskKind_REDUCE, message.TaskKind_REDUCE} {
		last.Own = append(last.Own, receipt(kind))
	}
	return log
}

// cheater throws the dice that the law reckons with.
type cheater struct {
	p       *prospect
	dice    *rand.Rand
	charges int
}

func (c *cheater) lies(r *message.Receipt) bool {
	return adversary.Falsifies(c.p.kind, r) && c.dice.Float64() < c.p.rate
}

func (c *cheater) foundIn(epoch int, log []orchestrator.Prospect) bool {
	var bad [8]bool // segments
	suspicion, found, joint := 1.0, false, false
	first := c.p.law.older && epoch == 0
	for i, s := range log {
		for _, r := range s.Own {
			kind := r.GetTask().GetKind()
			switch {
			case kind == message.TaskKind_REDUCE && c.p.law.joint:
				if !joint && i == len(log)-1 { // one shard of the two is the accomplice's, too
					joint = true
					lie := c.lies(r)
					found = found || lie && c.dice.Float64() < c.p.shardShare
					bad[i] = bad[i] || lie
					if lie && c.dice.Float64() < c.p.chance(s.Weight, 1) { // in the accomplice's log
						found = true
					}
				}
			case kind == message.TaskKind_REDUCE:
				found = found || c.lies(r)
			case kind == message.TaskKind_SHARE:
				if !(c.p.law.older && epoch == 0) && c.lies(r) {
					bad[i] = true
					if c.p.law.loud {
						suspicion += orchestrator.FlagWeight
					}
					if c.p.law.charge == row {
						c.charges++
					}
				}
			case first && adversary.Falsifies(c.p.kind, r):
				first = false
			default:
				for again := true; again && c.charges < orchestrator.MaxFaults; {
					lie := c.lies(r)
					again = lie && c.p.law.charge == sum
					bad[i] = bad[i] || lie && !c.p.law.hidden
					switch {
					case lie && c.p.law.charge != uncharged:
						c.charges++
					case !lie && c.p.law.charge == row:
						c.charges = 0
					}
				}
			}
			if c.charges >= orchestrator.MaxFaults {
				return true
			}
		}
	}
	for i, s := range log {
		found = found || bad[i] && c.dice.Float64() < c.p.chance(s.Weight, suspicion)
	}
	return found
}

// What the law says of a share that is false alone: it stands out in every epoch, or in none.
func TestAFalseShareStandsOutWhereTheLawSaysSo(t *testing.T) {
	for _, kind := range []string{"free-rider", "zero", "scale", "sign-flip", "stale", "copy", "nan"} {
		var c sim.Scenario
		defer c.Close()
		for _, command := range []string{"network real stages=3 miners=12 seed=1 epochs=4 h=8", "run until=phase:Training"} {
			if _, err := c.Do(command); err != nil {
				t.Fatal(err)
			}
		}
		n := trustCell{kind, 1}.cheaters(c.Sim().View())[0]
		if err := c.Sim().Machine(n).Err(kind, math.MaxInt, 1, message.TaskKind_SHARE); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if _, err := c.Do("run until=phase:Installing"); err != nil {
				t.Fatal(err)
			}
			v := c.Sim().View()
			if m := v.Miners[n-1]; m.Screened != cheatLaws[kind].loud {
				t.Errorf("%s, epoch %d: screened is %v: norm %.2f, cosine %.2f", kind, v.Epoch, m.Screened, m.Norm, m.Cosine)
			}
			if _, err := c.Do("run for=100ms"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
