//go:build linux

package main

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/iota-train/iota/role/orchestrator"
)

func TestChaosKilledOrchestratorLosesNothing(t *testing.T) {
	c := newChaos(t, "--validators", "1")
	c.validator()
	c.with(6)
	var back []time.Duration
	before := c.now()
	for range long(4, 20) {
		pass(time.Duration(c.rng.Int64N(int64(3 * time.Second))))
		if v, err := c.ask(); err == nil {
			before = v
		}
		c.orchestrator.kill()
		c.verify()
		c.orchestrator.start(t)
		began := time.Now()
		first := c.now()
		c.kept(before, first)
		before = c.await("the miners to be back at work", time.Minute, c.working(first))
		back = append(back, time.Since(began))
	}
	c.progress(2, time.Minute)
	slices.Sort(back)
	t.Logf("%d kills; from the start to every miner back and new work acknowledged: median %v, most %v: %v",
		len(back), back[len(back)/2].Round(time.Millisecond), back[len(back)-1].Round(time.Millisecond), rounded(back))
}

func TestChaosLongAbsenceOfTheOrchestrator(t *testing.T) {
	c := newChaos(t).with(3)
	before := c.now()
	c.orchestrator.kill()
	pass(long(6*time.Second, 40*time.Second))
	c.orchestrator.start(t)
	began := time.Now()
	first := c.now()
	c.kept(before, first)
	c.await("the miners to be back at work", time.Minute, c.working(first))
	t.Logf("back at work %v after the restart", since(began))
	c.progress(2, time.Minute)
}

func TestChaosRestartOfEverything(t *testing.T) {
	c := newChaos(t, "--validators", "1")
	c.validator()
	c.with(4)
	for range long(2, 5) {
		before := c.now()
		c.killAll()
		c.verify()
		for _, p := range c.all() {
			p.start(t)
		}
		c.kept(before, c.progress(2, time.Minute))
	}
	for _, p := range c.all() {
		c.interrupt(p)
	}
	c.verify()
}

func TestChaosStoppedProcessesGoOn(t *testing.T) {
	c := newChaos(t).with(6)
	stop := long(3*time.Second, 20*time.Second)
	for _, p := range []*process{c.participants[0], c.orchestrator} {
		before, asked := c.now(), time.Now()
		p.signal(syscall.SIGSTOP)
		pass(stop)
		p.signal(syscall.SIGCONT)
		began := time.Now()
		after := c.await("everybody at work", time.Minute, func(v *orchestrator.View) bool { return c.working(before)(v) && v.Epoch > before.Epoch })
		t.Logf("%s stopped for %v: everybody back and an epoch installed %v after; leases that ran out: %d", p.name, stop,
			since(began), after.Counters.LeasesExpired-before.Counters.LeasesExpired)
		c.kept(before, after)
		// Nothing is late that could not be looked at.
		if ran := after.Now - before.Now; p == c.orchestrator && ran > time.Since(asked)-stop+time.Second {
			t.Errorf("run time went on by %v in %v, of which %v were none", ran, time.Since(asked), stop)
		}
		c.progress(2, time.Minute)
	}
}

func rounded(ds []time.Duration) (list []time.Duration) {
	for _, d := range ds {
		list = append(list, d.Round(100*time.Millisecond))
	}
	return list
}
