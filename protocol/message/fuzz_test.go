package message

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"google.golang.org/protobuf/proto"
)

// FuzzDecode holds every message that comes from another process to this: it is refused, or it means the same to whoever
// gets its encoding. Nothing that is asked of it afterwards panics.
func FuzzDecode(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	receipt := &Receipt{
		Task: &TaskID{Kind: TaskKind_FORWARD, Epoch: 1, Batch: 2, Stage: 3}, Inputs: [][]byte{make([]byte, 32)},
		Outputs: []*BlobRef{{Hash: make([]byte, 32), Size: 8}}, Note: "note", Sources: []*SourceStats{{Finite: true, Norm2: 1}},
		Summed: []*Summed{{Batch: 1}}, Plan: &Plan{Members: [][]byte{{1}}, Bounds: []uint64{0, 9}, First: []uint32{0}, Second: []uint32{0}},
	}
	result := Sign(key, receipt)
	for _, m := range []proto.Message{
		&Envelope{Kind: &Envelope_Register{Register: &Register{Session: make([]byte, 16), Numerics: "go-f32-1", Speed: 1}}},
		&Envelope{Kind: &Envelope_Heartbeat{Heartbeat: &Heartbeat{Session: make([]byte, 16), Uploaded: 5}}},
		&Envelope{Kind: &Envelope_Result{Result: result}},
		&Order{Kind: &Order_Task{Task: &Task{Id: receipt.Task, Inputs: receipt.Outputs, Plan: receipt.Plan, Log: []*Receipt{receipt}}}},
		&Order{Kind: &Order_Ack{Ack: &Ack{Task: receipt.Task, Number: 1}}},
		&Order{Kind: &Order_Cancel{Cancel: &Cancel{}}},
		&Manifest{Run: "run", Model: &Model{Cuts: []uint32{1, 1}}, Data: &Data{Hash: make([]byte, 32)}, Rules: &Rules{Quorum: 0.5}},
		&Event{Miner: make([]byte, 32), Kind: &Event_Result{Result: result}},
		&Outbound{To: make([]byte, 32), Release: receipt.Outputs, Ledger: []byte("{}\n")},
		receipt, result,
	} {
		f.Add(Encode(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []proto.Message{&Envelope{}, &Order{}, &Manifest{}, &Event{}, &Outbound{}, &Receipt{}, &Result{}, &Upload{}, &Wanted{}, &Holding{}} {
			if Decode(b, m) != nil {
				continue
			}
			once := Encode(m)
			again := m.ProtoReflect().New().Interface()
			if err := Decode(once, again); err != nil || !bytes.Equal(Encode(again), once) {
				t.Fatalf("%T: its encoding means something else: %v", m, err)
			}
			ask(m)
		}
	})
}

// ask calls what is called with messages of strangers.
func ask(m proto.Message) {
	switch m := m.(type) {
	case *Envelope:
		ask(m.GetResult())
	case *Event:
		ask(m.GetResult())
	case *Result:
		m.Verify(make([]byte, ed25519.PublicKeySize))
		if r, err := m.Open(); err == nil {
			ask(r)
		}
	case *Order:
		m.Urgency()
		_ = m.GetTask().GetId().Key().String()
		Segments(m.GetTask().GetLog(), 9)
	case *Receipt:
		_ = m.GetTask().Key().String()
		Differs(m.Ordered(), m.Essence(1))
		m.BlobHashes()
		for _, s := range Segments(m.GetReplayed(), 9) {
			for i, at := range s.Receipts {
				s.Want(i, m.GetReplayed()[at])
			}
		}
	}
}
