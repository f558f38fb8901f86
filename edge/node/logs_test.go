package node_test

import (
	"crypto/ed25519"
	"testing"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/protocol/message"
)

func TestAMinerHasTheNumberOfTheRunThoughOthersWereRefusedBefore(t *testing.T) {
	j := journal.NewMemory()
	m := &message.Manifest{Numerics: "n", Rules: &message.Rules{MaxMiners: 2}}
	if err := j.WriteGenesis(append(make([]byte, 32), message.Encode(m)...)); err != nil {
		t.Fatal(err)
	}
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	public := key.Public().(ed25519.PublicKey)
	good := &message.Register{Session: make([]byte, 16), Numerics: "n"}
	load := message.Sign(key, &message.Receipt{Task: &message.TaskID{Kind: message.TaskKind_LOAD}})
	var batch []journal.Record
	for i, e := range []*message.Event{
		{Miner: []byte("other numerics"), Kind: &message.Event_Register{Register: &message.Register{Session: make([]byte, 16), Numerics: "x"}}},
		{Miner: []byte("no session"), Kind: &message.Event_Register{Register: &message.Register{Numerics: "n"}}},
		{Miner: []byte("validator"), Kind: &message.Event_Register{Register: &message.Register{
			Session: make([]byte, 16), Numerics: "n", Role: message.Role_VALIDATOR}}},
		{Miner: []byte("validator"), Kind: &message.Event_Register{Register: good}},
		{Miner: public, Kind: &message.Event_Register{Register: good}},
		{Miner: public, Kind: &message.Event_Result{Result: load}},
	} {
		batch = append(batch, journal.Record{Seq: uint64(i + 1), Event: message.Encode(e)})
	}
	if err := j.Append(batch); err != nil {
		t.Fatal(err)
	}
	logs, err := node.Logs(j)
	if err != nil || len(logs) != 1 || logs[0].Number != 1 {
		t.Errorf("%d logs, %v; want one of miner 1", len(logs), err)
	}
}
