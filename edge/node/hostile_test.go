package node_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/protocol/message"
)

func TestStrangersNeitherStopARunNorFillItsJournal(t *testing.T) {
	s := newSite(t, 3)
	h := s.open()
	ended := make(chan error, 1)
	go func() { ended <- s.serve(h) }()
	s.start(6)
	defer s.leave()
	say := func(i int, messages ...[]byte) {
		conn, err := s.links.Dial(t.Context(), public(i))
		if err != nil {
			return // nobody listens yet, or too many dial
		}
		t.Cleanup(func() { conn.Close() }) // it never reads
		for _, b := range messages {
			_ = conn.Send(t.Context(), b)
		}
	}
	register := func(numerics string, speed float64) []byte {
		return message.Encode(&message.Envelope{Kind: &message.Envelope_Register{Register: &message.Register{
			Session: bytes.Repeat([]byte{1}, 16), Numerics: numerics, Speed: speed}}})
	}
	large := message.Encode(&message.Envelope{Kind: &message.Envelope_Result{Result: message.Sign(key(10),
		&message.Receipt{Session: bytes.Repeat([]byte{1}, 16), Note: strings.Repeat("x", 1<<16)})}})
	for h.View().Epoch < 1 {
		select {
		case err := <-ended:
			t.Fatalf("the run ended: %v", err)
		default:
		}
		say(10, register("another", 1), large, large)
		say(11, register(strings.Repeat("x", 1<<16), 1))
		say(12, register(string(kernel.F32), 5e-324))
		say(13, register(string(kernel.F32), math.NaN()))
		say(14, []byte("garbage"))
		say(15, nil)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	s.check(h)
	if err := s.journal.Read(1, func(r journal.Record) error {
		if len(r.Event) > 1<<15 {
			t.Errorf("event %d has %d bytes", r.Seq, len(r.Event))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
