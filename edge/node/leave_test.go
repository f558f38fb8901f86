package node_test

import (
	"runtime"
	"testing"

	"github.com/iota-train/iota/protocol/message"
)

func TestMinersThatAreToldToEndLoseNoWorkThatAnybodyMerges(t *testing.T) {
	s := newSite(t, 10)
	h := s.open()
	ended := make(chan error, 1)
	go func() { ended <- s.serve(h) }()
	s.start(6)
	for h.View().Epoch < 1 {
		runtime.Gosched()
	}
	s.drivers[0].Leave()
	s.drivers[0].Leave() // a second time is the same
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	s.leave()
	s.check(h)
	v := h.View()
	if n := v.Counters.Rerouted + v.Counters.LeasesExpired; n > 0 {
		t.Errorf("%d tasks were given to others", n)
	}
	for _, m := range v.Miners {
		if left := string(m.Key) == public(0); left != (m.State == "absent") {
			t.Errorf("miner %d is %s", m.Number, m.State)
		}
	}
	l := s.drivers[1].Labours()
	if l.Tasks[message.TaskKind_LOAD] == 0 || l.Uploaded == 0 || l.Connected {
		t.Errorf("%+v", l)
	}
	if vitals := h.Vitals(); vitals.Serving || vitals.Seq != s.journal.LastSeq() || vitals.Durable.Counts == nil {
		t.Errorf("%+v", vitals)
	}
}
