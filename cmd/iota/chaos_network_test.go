//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestChaosStageThatIsCutOffComesBack(t *testing.T) {
	c := newChaos(t).with(6)
	w := c.behind(1)
	before := c.progress(1, time.Minute)
	away := long(6*time.Second, 30*time.Second)
	w.cut()
	pass(away)
	during := c.now()
	w.mend()
	began := time.Now()
	after := c.await("everybody at work", time.Minute, c.working(during))
	t.Logf("stage 1 cut off for %v: %d micro-batches acknowledged meanwhile; back at work %v after", away,
		acknowledged(during)-acknowledged(before), since(began))
	c.kept(before, after)
	c.progress(2, time.Minute)
}

func TestChaosSlowLinkHoldsNobodyForever(t *testing.T) {
	c := newChaos(t).with(6)
	length := long(3*time.Second, 15*time.Second)
	fast := c.pace(length, func() { pass(time.Second) })
	w := c.behind(2)
	w.slow(200 << 10)
	c.progress(1, time.Minute)
	slow := c.pace(length, func() { pass(time.Second) })
	t.Logf("a stage at 200 KiB/s per connection: %.0f tokens/s merged, %.0f without", slow, fast)
	w.slow(0)
	c.progress(2, time.Minute)
}

func TestChaosConnectionsThatAreReset(t *testing.T) {
	c := newChaos(t).with(6)
	length := long(3*time.Second, 20*time.Second)
	calm := c.pace(length, func() { pass(time.Second) })
	wires := []*wire{c.behind(0), c.behind(1), c.behind(2)}
	c.progress(1, time.Minute)
	resets := 0
	torn := c.pace(length, func() {
		pass(time.Duration(c.rng.Int64N(int64(500 * time.Millisecond))))
		wires[c.rng.IntN(len(wires))].reset(c.rng)
		resets++
	})
	t.Logf("%d resets in %v: %.0f tokens/s merged, %.0f without", resets, length, torn, calm)
	before := c.now()
	c.await("everybody at work", time.Minute, c.working(before))
	c.progress(2, time.Minute)
}

// behind puts the miners of a stage behind a wire, by starting them again.
func (c *chaos) behind(stage int) *wire {
	c.Helper()
	v := c.now()
	w := c.lay()
	for _, p := range c.inStage(v, stage) {
		p.kill()
		for i, arg := range p.args {
			if arg == "--join" {
				p.args[i+1] = c.join.String()
			}
		}
		p.start(c.T)
	}
	c.await("the miners behind the wire", time.Minute, c.working(v))
	return w
}

func TestChaosMinersBehindShapedLinksOfTheirOwn(t *testing.T) {
	lengthy(t)
	privileged(t)
	name := fmt.Sprintf("iota%d", os.Getpid())
	near, far := "ia"+name[4:], "ib"+name[4:]
	net := fmt.Sprintf("10.213.%d.", os.Getpid()%250)
	for _, line := range []string{
		"netns add " + name, "link add " + near + " type veth peer name " + far, "link set " + far + " netns " + name,
		"addr add " + net + "1/30 dev " + near, "link set " + near + " up",
		"-n " + name + " addr add " + net + "2/30 dev " + far, "-n " + name + " link set " + far + " up",
	} {
		if out, err := shell("ip " + line); err != nil {
			_, _ = shell("ip netns del " + name)
			_, _ = shell("ip link del " + near)
			t.Skipf("ip %s: %v: %s", line, err, out)
		}
	}
	t.Cleanup(func() {
		_, _ = shell("ip link del " + near)
		_, _ = shell("ip netns del " + name)
	})
	c := chaosIn(t, t.TempDir(), "--serve", net+"1:0").with(3)
	for range 3 {
		p := c.miner()
		p.kill()
		p.under = []string{"ip", "netns", "exec", name}
		p.start(t)
	}
	before := c.now()
	c.await("everybody at work", time.Minute, c.working(before))
	if out, err := shell("tc qdisc add dev " + near + " root tbf rate 20mbit burst 64kb latency 200ms"); err != nil {
		t.Logf("the link is not shaped: %v: %s", err, out)
	}
	pace := c.pace(long(3*time.Second, 15*time.Second), func() { pass(time.Second) })
	must(t, "ip link set "+near+" down")
	pass(long(3*time.Second, 20*time.Second))
	must(t, "ip link set "+near+" up")
	before = c.now()
	began := time.Now()
	c.await("everybody at work", time.Minute, c.working(before))
	t.Logf("three miners behind one link of 20 Mbit/s: %.0f tokens/s merged; after a cut of the link all back in %v", pace, since(began))
	c.progress(2, time.Minute)
}

func shell(line string) (string, error) {
	words := strings.Fields(line)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	b, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(b)), err
}

func must(t *testing.T, line string) {
	t.Helper()
	if out, err := shell(line); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

func since(t time.Time) time.Duration { return time.Since(t).Round(10 * time.Millisecond) }
