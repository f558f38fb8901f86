package orchestrator

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/iota-train/iota/protocol/message"
)

// A screen looks at every share of a stage's merge from what the reductions say of it: its norm against the cohort's
// median, and its cosine to the result. Who stands out is flagged and the operator told; the flag directs audits.
//
// Nothing else follows. A screen is evidence and no proof: a new miner, a slow one or one with unusual text may stand
// out and be honest, and two owners that agree on a lie about a third could otherwise have its work left out. What an
// outlier does to the weights is the aggregation rule's to limit, and pay the audit's to decide. So a screened source
// stays in the merge, and in the next one.
//
// Both owners of a shard, or an owner and the arbiter, must say the same of every source, byte for byte; other shards
// are not looked at. A replay of a reduction finds owners that both lie.
const (
	fewestScreened = 3    // shares, of which one can stand out
	normBound      = 5.0  // times the median, and its inverse
	cosineBound    = 0.05 // below which a share has next to nothing in common with the others
	common         = 0.25 // median of the cosines from which on honest shares lie well above the bound
)

// measure adds what a reduction says of its sources, if another one of the shard said the same.
func (s *stage) measure(sh *shard, result *reduction, r *message.Receipt) {
	confirms := func(earlier *reduction) bool { return earlier != nil && earlier.same(result) }
	if result == nil || !slices.ContainsFunc(sh.Results[:], confirms) {
		return
	}
	s.ResultNorm2 += finite(max(0, r.GetResultNorm2()))
	i := 0
	for _, me := range s.Cohort {
		if me.Shares == nil {
			continue
		}
		me.Norm2 += finite(max(0, r.GetSources()[i].GetNorm2()))
		me.Dot += finite(r.GetSources()[i].GetDot())
		i++
	}
}

// statsHash is the hash of what a reduction says of the norms, which two owners must agree on.
func statsHash(r *message.Receipt) []byte {
	b := binary.LittleEndian.AppendUint64(nil, math.Float64bits(r.GetResultNorm2()))
	for _, st := range r.GetSources() {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(st.GetNorm2()))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(st.GetDot()))
	}
	return message.HashBytes(b)
}

// screen flags the shares of a stage that stand out. Norm, Cosine and Screened of a miner are those of the last merge that
// had its share; the operator is told when the flag is new.
func (o *Orchestrator) screen(s *stage) {
	var list []*member
	var norms, cosines, counts []float64
	total := 0.0
	for _, me := range s.Cohort {
		if me.Shares != nil && !me.Unfit {
			list = append(list, me)
			total += float64(me.B)
		}
	}
	for _, me := range list {
		norms = append(norms, math.Sqrt(me.Norm2))
		cosines = append(cosines, s.cosine(me, float64(me.B)/total))
		counts = append(counts, float64(me.B))
	}
	typical, alike, work := median(norms), median(cosines), median(counts)
	for i, me := range list {
		m := o.Miners[me.Miner]
		was := m.Screened
		m.Norm, m.Cosine, m.Screened = 0, 0, false
		if len(list) < fewestScreened || !(typical > 0) || !(s.ResultNorm2 > 0) {
			continue
		}
		m.Norm, m.Cosine = finite(norms[i]/typical), cosines[i]
		done := counts[i] / work // a pseudo-gradient grows with its micro-batches, at most in proportion
		loud, quiet := norms[i] > float64(normBound*max(1, done)*typical), norms[i] < float64(min(1, done)*typical)/normBound
		apart := alike >= common && m.Cosine < cosineBound
		if m.Screened = loud || quiet || apart; !m.Screened {
			continue
		}
		o.Counters.Screened++
		if !was {
			o.alert("miner %d is screened in stage %d: its share has %.2g times the cohort's median norm, and cosine %.2f to the rest, median %.2f",
				m.Number+1, s.Index, m.Norm, m.Cosine, alike)
		}
	}
}

// cosine is that of a share to the result without the share's own part of it, which would make every share look alike:
// part is its share of the weight. For the mean it is the cosine to the mean of the others.
func (s *stage) cosine(me *member, part float64) float64 {
	dot := me.Dot - float64(part*me.Norm2)
	rest := s.ResultNorm2 - float64(2*part*me.Dot) + float64(part*part*me.Norm2)
	if !(rest > 0) || !(me.Norm2 > 0) {
		return 0
	}
	return max(-1, min(1, dot/math.Sqrt(rest)/math.Sqrt(me.Norm2)))
}

// median of an even number is the mean of the two in the middle; of nothing it is 0.
func median(x []float64) float64 {
	n := len(x)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(x))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
