package orchestrator_test

import (
	"testing"
	"time"

	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
)

// FuzzEvents gives strange events to the core while each kind of task is open. It may refuse one; its state stays one that
// can be written, and it goes on.
func FuzzEvents(f *testing.F) {
	n := newNet(f, 3, func(r *message.Rules) { r.AuditShare, r.ShardShare, r.ChallengeWindow = 1, 1, 1 })
	for _, i := range []int{0, 1, 2, 3, 4, 5, firstValidator} {
		n.join(i)
	}
	first := n.core.View().Miners[0].Key
	var states [][]byte
	for seen := map[string]bool{}; !n.core.View().Finished; n.one() {
		n.now += time.Millisecond
		v := n.core.View()
		o := &message.Outbound{}
		if len(n.orders) > 0 {
			o = n.orders[0]
		}
		task := o.GetOrder().GetTask()
		what := string(v.Phase) + task.GetId().GetKind().String()
		if task == nil || seen[what] || v.Epoch > 1 {
			continue
		}
		seen[what] = true
		state, err := n.core.Snapshot()
		if err != nil {
			f.Fatal(err)
		}
		p := *n.peers[string(o.GetTo())]
		r := n.answer(&p, task)
		r.Session = p.session
		in := &message.Event{Miner: o.GetTo(), Kind: &message.Event_Result{Result: message.Sign(p.key, r)}}
		f.Add(message.Encode(in), message.Encode(r), uint16(len(states)))
		states = append(states, state)
	}
	session := make([]byte, 16)
	for i, e := range []*message.Event{
		{Kind: &message.Event_Register{Register: &message.Register{Session: session, Numerics: "test", Holding: true}}},
		{Kind: &message.Event_Heartbeat{Heartbeat: &message.Heartbeat{Session: session, Uploaded: 1}}},
		{Kind: &message.Event_Gone{Gone: &message.Gone{Session: session}}},
		{Kind: &message.Event_Restarted{}}, {Kind: &message.Event_Stop{}}, {Kind: &message.Event_Tick{}}, {},
	} {
		f.Add(message.Encode(e), []byte{}, uint16(i))
	}
	f.Fuzz(func(t *testing.T, event, receipt []byte, at uint16) {
		core, err := orchestrator.New(n.m, n.secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := core.Restore(states[int(at)%len(states)]); err != nil {
			t.Fatal(err)
		}
		var in message.Event
		if message.Decode(event, &in) != nil {
			return
		}
		now := core.View().Now
		_, _ = core.Step(now, &in)
		if len(in.GetMiner()) != 32 {
			in.Miner = first
		}
		in.Kind = &message.Event_Result{Result: &message.Result{Receipt: receipt}}
		_, _ = core.Step(now, &in)
		for _, later := range []time.Duration{time.Second, time.Hour} {
			if _, err := core.Step(now+later, &message.Event{Kind: &message.Event_Tick{Tick: &message.Tick{}}}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := core.Snapshot(); err != nil {
			t.Fatal(err)
		}
		core.View()
	})
}
