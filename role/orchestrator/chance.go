package orchestrator

import "github.com/iota-train/iota/protocol/message"

// Prospect is a segment of a log with its weight in the draw. By work the weights of a log make 1, so that the audit share
// of its work is drawn, however it is cut.
type Prospect struct {
	message.Segment
	Own     []*message.Receipt // the segment's work
	Closing bool               // its last receipts are the share, the miner's reductions and the outer step
	Weight  float64
}

// closingWeight is the weight of a closing segment, where the others can pay for it. A false share shows nowhere else.
const closingWeight = 3

// prospects cuts a log for the draw, nil if it cannot be cut.
func (o *Orchestrator) prospects(log []*message.Receipt) []Prospect {
	var list []Prospect
	var work []float64
	total := 0.0
	for _, s := range message.Segments(log, o.keptStep()) {
		p, units := Prospect{Segment: s}, 0.0
		for _, at := range s.Receipts[s.Own:] {
			p.Own, units = append(p.Own, log[at]), units+o.units(log[at])
		}
		list, work, total = append(list, p), append(work, units), total+units
	}
	if len(list) == 0 {
		return nil
	}
	last := len(list) - 1
	closing, other := o.weights(work[last], total)
	for i := range list {
		list[i].Weight = other
	}
	list[last].Closing, list[last].Weight = true, closing
	return list
}

// weights are those of a log's closing segment, which has so much of all its work, and of the others. The others keep half
// of theirs at least, and no weight makes a chance above 1, which nothing could make up for.
func (o *Orchestrator) weights(work, total float64) (closing, other float64) {
	closing = max(1, min(closingWeight, replays/o.rules.GetAuditShare()))
	if work <= 0 {
		return closing, 1
	}
	part := work / total
	closing = min(closing, (1+1/part)/2)
	if part >= 1 {
		return closing, 1
	}
	return closing, (1 - float64(closing*part)) / (1 - part)
}

// Chance is the probability with which work of a weight is drawn, of a miner of so much suspicion.
func (o *Orchestrator) Chance(weight, suspicion float64) float64 {
	return min(1, float64(o.rules.GetAuditShare()*suspicion*weight)/replays)
}

// Prospects are those of a miner, by number from 1, if the epoch ended now.
func (o *Orchestrator) Prospects(number int) []Prospect {
	var log []*message.Receipt
	for _, raw := range o.Miners[number-1].Receipts {
		log = append(log, opened(raw))
	}
	return o.prospects(log)
}
