package main

import (
	"crypto/ed25519"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/sim/adversary"
)

// misbehaviour is one --adversary flag.
type misbehaviour struct {
	kind  string
	rate  float64
	miner int // from 0; validators count on after the miners
}

// slow is the kind that waits while it works: it must not keep others from the processors.
const slow = "slow"

// misbehaviours reads the --adversary flags.
func (o *options) misbehaviours() ([]misbehaviour, error) {
	var list []misbehaviour
	for _, s := range o.adversaries {
		m, err := parseAdversary(s, o.miners, o.validators)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// parseAdversary reads KIND[:RATE]@MINER, or @vN for a validator.
func parseAdversary(s string, miners, validators int) (misbehaviour, error) {
	m := misbehaviour{rate: 1}
	what, who, ok := strings.Cut(s, "@")
	if !ok {
		return m, usagef("--adversary %q: write KIND[:RATE]@MINER, as in nan:0.1@3", s)
	}
	kind, rate, rated := strings.Cut(what, ":")
	if m.kind = kind; !slices.Contains(adversary.Kinds(), kind) {
		return m, usagef("--adversary %q: use %s", kind, strings.Join(adversary.Kinds(), ", "))
	}
	if rated {
		var err error
		if m.rate, err = strconv.ParseFloat(rate, 64); err != nil || !(m.rate > 0 && m.rate <= 1) {
			return m, usagef("--adversary %q: the rate is a share of its tasks, above 0 and at most 1", s)
		}
	}
	if adversary.OfValidators(kind) != strings.HasPrefix(who, "v") {
		return m, usagef("--adversary %q: lazy and lying are for validators, as in lazy@v1, all other kinds for miners", s)
	}
	if v, ok := strings.CutPrefix(who, "v"); ok {
		number, err := strconv.Atoi(v)
		if err != nil || number < 1 || number > validators {
			if validators == 0 {
				return m, usagef("--adversary %q: the run has no validator, use --validators 1 or more", s)
			}
			return m, usagef("--adversary %q: there is no validator %s, use v1 to v%d", s, v, validators)
		}
		m.miner = miners + number - 1
		return m, nil
	}
	number, err := strconv.Atoi(who)
	if err != nil || number < 1 || number > miners {
		return m, usagef("--adversary %q: there is no miner %s, use 1 to %d", s, who, miners)
	}
	m.miner = number - 1
	return m, nil
}

// accomplices are the keys of the other miners that misbehave in the same way.
func accomplices(list []misbehaviour, a misbehaviour, keys []ed25519.PrivateKey) [][]byte {
	var others [][]byte
	for _, b := range list {
		if b.kind == a.kind && b.miner != a.miner && b.miner < len(keys) {
			others = append(others, keys[b.miner].Public().(ed25519.PublicKey))
		}
	}
	return others
}

// wrap lets a worker misbehave as the flags say. keys are the miners'.
func wrap(list []misbehaviour, i int, m *message.Manifest, keys []ed25519.PrivateKey, key ed25519.PrivateKey, w node.Worker) (node.Worker, error) {
	seed := message.HashBytes(append([]byte("adversary"), key.Seed()...))
	var worker adversary.Worker = w
	for n, a := range list {
		if a.miner != i {
			continue
		}
		var err error
		worker, err = adversary.Wrap(m, a.kind, a.rate, binary.LittleEndian.Uint64(seed)+uint64(n), key, worker, accomplices(list, a, keys)...)
		if err != nil {
			return nil, err
		}
	}
	return worker, nil
}
