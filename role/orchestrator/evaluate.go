package orchestrator

import (
	"encoding/hex"
	"math"

	"github.com/iota-train/iota/protocol/message"
)

// startEvaluation sends held-out micro-batches on their way: a few after an ordinary install, all of them after the
// last.
func (o *Orchestrator) startEvaluation() {
	o.Last = o.complete() || o.Stopping
	o.EvaluateNext, o.EvaluatedDone, o.EvaluateCount = 0, 0, o.rules.GetHeldOutPerEpoch()
	if o.Last {
		o.EvaluateCount = o.rules.GetHeldOut()
	}
	o.Evaluated = make([]float64, o.EvaluateCount)
}

// evaluated takes in a forward of a held-out micro-batch, or its loss at the end.
func (o *Orchestrator) evaluated(m *miner, f *flight, r *message.Receipt, last bool) {
	if !last {
		f.Wires[f.Hop] = newRef(r.GetOutputs()[0])
		f.Makers[f.Hop] = m.Number
		o.release(f, f.Hop)
		f.Hop, f.Avoid = f.Hop+1, 0
		return
	}
	o.land(f)
	if f.Batch >= uint64(len(o.Evaluated)) {
		return
	}
	o.Evaluated[f.Batch] = math.Float64frombits(r.GetLossBits())
	o.EvaluatedDone++
	if o.EvaluatedDone < o.EvaluateCount {
		return
	}
	sum := 0.0
	for _, l := range o.Evaluated {
		sum += l
	}
	o.Counters.LossEval, o.Counters.EvalCount = sum/float64(len(o.Evaluated)), o.EvaluateCount
}

// agreement is the matrix of a stage's merge: each pair of its cohort has one shard in common.
func (s *stage) agreement() (disagreed, unknown [][2]int) {
	for _, sh := range s.Shards {
		if len(s.Cohort) == 0 || sh.Owners[0] == sh.Owners[1] {
			continue
		}
		pair := [2]int{s.Cohort[sh.Owners[0]].Miner + 1, s.Cohort[sh.Owners[1]].Miner + 1}
		switch a, b := sh.Results[0], sh.Results[1]; {
		case a == nil || b == nil:
			unknown = append(unknown, pair)
		case !a.same(b):
			disagreed = append(disagreed, pair)
		}
	}
	return disagreed, unknown
}

// reportEpoch adds the finished epoch to the reports.
func (o *Orchestrator) reportEpoch() {
	e := EpochReport{
		Epoch: o.Epoch, Seconds: (o.Now - o.EpochStart).Seconds(), MergeSeconds: (o.Now - o.MergeStart).Seconds(),
		Tokens: o.LossCount * uint64(o.shape.Rows()),
	}
	if o.LossCount > 0 {
		e.Loss = o.LossSum / float64(o.LossCount)
		o.Counters.LossLast = e.Loss
	}
	for _, s := range o.Stages {
		r := StageReport{}
		for _, me := range s.Cohort {
			if me.Shares == nil {
				continue
			}
			m := o.Miners[me.Miner]
			e.Cohort++
			e.BEff += me.B
			n := float64(s.sources())
			r.GradientNorm += m.GradNorm / n
			r.UpdateNorm += math.Sqrt(m.UpdateNorm2) / n
			r.Spread += m.Spread / n
		}
		r.Spread = math.Sqrt(r.Spread)
		r.Disagreed, r.Unknown = s.agreement()
		e.Stages = append(e.Stages, r)
		for _, sh := range s.Shards {
			e.Shards++
			if sh.Lost && len(s.Cohort) > 0 {
				e.ShardsLost++
			}
			if sh.Disputed {
				e.Disagreements++
			}
		}
	}
	o.Counters.ShardsLost += uint64(e.ShardsLost)
	const kept = 10_000
	o.Epochs = append(o.Epochs, e)
	if n := len(o.Epochs); n > kept {
		o.Epochs = append([]EpochReport(nil), o.Epochs[n-kept:]...)
	}
}

func hashOf(name string) []byte {
	b, _ := hex.DecodeString(name) // names are written by this package
	return b
}
