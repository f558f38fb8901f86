package main

import (
	"github.com/iota-train/iota/edge/node"
)

// misbehave returns what wraps the workers of the miners that --adversary names, nil if it names none.
func (o *options) misbehave() (func(i int, w node.Worker) node.Worker, error) {
	for _, s := range o.adversaries {
		a, err := parseAdversary(s, o.miners)
		if err != nil {
			return nil, err
		}
		return nil, usagef("--adversary %q: no such kind of misbehaviour is built", a.kind)
	}
	return nil, nil
}
