//go:build linux

package main

import (
	"testing"
	"time"
)

func TestChaosMinersThatComeAndGo(t *testing.T) {
	c := newChaos(t, "--preset", "tiny").with(9)
	length, every := long(6*time.Second, *chaosLength), long(2*time.Second, 10*time.Second)
	calm := c.pace(length, func() { pass(every) })
	kills := 0
	churned := c.pace(length, func() {
		pass(every)
		p := c.participants[c.rng.IntN(len(c.participants))]
		p.kill()
		p.start(t)
		kills++
		c.now()
	})
	// What a run has to do that knows nothing but checkpoints: everybody stops and starts again from the last one.
	stopped := c.pace(length, func() {
		pass(every)
		c.killAll()
		for _, p := range c.all() {
			p.start(t)
		}
	})
	t.Logf("%v each, tokens/s merged: undisturbed %.0f; a miner of 9 killed every %v %.0f, %.0f %% of it (%d kills); everything stopped and started again instead %.0f, %.0f %%",
		length, calm, every, churned, 100*churned/calm, kills, stopped, 100*stopped/calm)
	v := c.progress(1, time.Minute)
	for _, e := range v.Epochs {
		if e.Seconds > 330 {
			t.Errorf("epoch %d took %.0f s, which is past its deadline", e.Epoch, e.Seconds)
		}
	}
}
