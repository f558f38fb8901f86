package orchestrator

import (
	"math"
	"slices"

	"github.com/iota-train/iota/protocol/clasp"
)

// claspWindow is how many samples the attribution of losses rests on: the newest of the run. With 50 miners in 5 stages
// each has made some 400 of them. They are part of the state, about 40 bytes each in a snapshot of 5 stages.
const claspWindow = 4096

// sampled takes in an acknowledged loss with the miners that made what it was computed from: for every stage the maker
// of the activation that went on, whoever was asked before. A micro-batch counts once, as its loss does. Held-out
// micro-batches give no samples: theirs is another text with a level of its own, and a few for each epoch tell nothing.
func (o *Orchestrator) sampled(tail *miner, f *flight, loss float64) {
	path := slices.Clone(f.Makers)
	path[f.Hop] = tail.Number
	o.Clasp.Add(o.Epoch, path, loss)
}

// attribute evaluates the window, once per epoch, when its last loss is in. A flag is a reason to look closer and nothing
// else: it directs audits, and changes neither pay nor membership.
//
// Samples belong to a key and a stage. A process that starts anew changes nothing; a miner that was moved is compared in
// each of its stages as long as the window holds samples of both, and has the more suspicious result. A flag falls when
// the samples that it rests on have left the window, or others outweigh them.
func (o *Orchestrator) attribute() {
	found := map[int]clasp.Effect{}
	for _, e := range o.Clasp.Effects() {
		if best, ok := found[e.Miner]; !ok || moreSuspicious(e, best) {
			found[e.Miner] = e
		}
	}
	for _, m := range o.Miners {
		was := m.Clasp.Flagged
		if m.Clasp = found[m.Number]; m.Clasp.Flagged && !was {
			o.alert("miner %d is flagged: losses of its pathways differ by %+.2f nats from those of its %d peers in stage %d (z %.1f)",
				m.Number+1, m.Clasp.Effect, m.Clasp.Peers, m.Clasp.Stage, m.Clasp.Z)
		}
	}
}

func moreSuspicious(a, b clasp.Effect) bool {
	if a.Flagged != b.Flagged {
		return a.Flagged
	}
	return math.Abs(a.Z) > math.Abs(b.Z)
}
