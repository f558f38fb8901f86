//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/iota-train/iota/edge/remote"
	"github.com/iota-train/iota/role/orchestrator"
)

// The chaos suite runs real processes on this machine and breaks things. Every test holds what must stay true; what
// depends on the machine's speed is printed. `go test` runs its short form, `make chaos` the long one, and `go test
// -short` none.
var (
	chaosLength = flag.Duration("chaos", 0, "run the chaos suite in its long form, with measured runs of this length")
	chaosSeed   = flag.Uint64("chaos-seed", 0, "seed of what the chaos suite draws (default: random)")
)

// long picks between the short and the long form of the suite.
func long[T any](short, long T) T {
	if *chaosLength > 0 {
		return long
	}
	return short
}

// chaos is a run of real processes.
type chaos struct {
	*testing.T
	rng          *rand.Rand
	dir          string
	orchestrator *process
	participants []*process
	direct       remote.Address // of the orchestrator itself
	join         remote.Address // that participants are given; another one where a proxy stands between
}

// newChaos starts an orchestrator with the settings. All processes end with the test.
func newChaos(t *testing.T, settings ...string) *chaos {
	t.Helper()
	lengthy(t)
	return chaosIn(t, t.TempDir(), settings...)
}

// lengthy skips a test where short ones are asked for. The short form runs several at once, as most of them wait; the
// long one measures.
func lengthy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	if *chaosLength == 0 {
		t.Parallel()
	}
}

// chaosIn is newChaos with a folder.
func chaosIn(t *testing.T, dir string, settings ...string) *chaos {
	t.Helper()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	c := &chaos{T: t, dir: dir, rng: rand.New(rand.NewPCG(seed, 0))}
	args := append([]string{"orchestrator", "--dir", c.folder(), "--listen", "off", "--preset", "nano", "--serve", "127.0.0.1:0"}, settings...)
	c.orchestrator = &process{name: "orchestrator", args: args, logs: c.dir}
	t.Cleanup(func() { c.end(seed) })
	c.orchestrator.start(t)
	var err error
	if c.direct, err = remote.ParseAddress(c.orchestrator.firstLine(t)); err != nil {
		t.Fatal(err)
	}
	// Started again, it is to be found where it was.
	c.orchestrator.args = append(args, "--serve", c.direct.Host)
	c.join = c.direct
	return c
}

// end kills everything and, after a failure, says what led to it.
func (c *chaos) end(seed uint64) {
	c.killAll()
	if !c.Failed() {
		return
	}
	c.Logf("seed %d", seed)
	for _, p := range c.all() {
		p.tail(c.T)
	}
}

func (c *chaos) folder() string { return filepath.Join(c.dir, "run") }

func (c *chaos) all() []*process { return append([]*process{c.orchestrator}, c.participants...) }

func (c *chaos) killAll() {
	for _, p := range c.all() {
		p.signal(syscall.SIGKILL)
	}
	for _, p := range c.all() {
		p.kill()
	}
}

// miner starts a miner in a folder of its own.
func (c *chaos) miner() *process { return c.participant("miner", "--threads", "1") }

func (c *chaos) validator() *process { return c.participant("validator", "--threads", "1") }

func (c *chaos) participant(role string, flags ...string) *process {
	c.Helper()
	name := role + strconv.Itoa(len(c.participants)+1)
	args := append([]string{role, "--join", c.join.String(), "--dir", filepath.Join(c.dir, name)}, flags...)
	p := &process{name: name, args: args, logs: c.dir, dir: filepath.Join(c.dir, name)}
	c.participants = append(c.participants, p)
	p.start(c.T)
	return p
}

// with starts so many miners and waits until the first epoch is installed.
func (c *chaos) with(miners int) *chaos {
	c.Helper()
	for range miners {
		c.miner()
	}
	c.await("the first epoch", time.Minute, func(v *orchestrator.View) bool {
		return v.Epoch >= 1 && len(v.Miners) == miners
	})
	return c
}

// ask asks the orchestrator how the run is.
func (c *chaos) ask() (*orchestrator.View, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := askRun(ctx, c.direct)
	if err != nil {
		return nil, err
	}
	return &s.View, nil
}

// await waits until the run is as it is to be, and holds the laws against it meanwhile.
func (c *chaos) await(what string, limit time.Duration, reached func(*orchestrator.View) bool) *orchestrator.View {
	c.Helper()
	var last *orchestrator.View
	for end := time.Now().Add(limit); time.Now().Before(end); pass(100 * time.Millisecond) {
		v, err := c.ask()
		if err != nil {
			if !c.orchestrator.running() {
				c.Fatalf("waiting for %s: the orchestrator has ended: %s", what, c.orchestrator.lastLine())
			}
			continue
		}
		c.lawful(v)
		if last = v; reached(v) {
			return v
		}
	}
	if last == nil {
		c.Fatalf("waiting for %s: no answer in %v", what, limit)
	}
	c.Fatalf("waiting for %s: not reached in %v: epoch %d, phase %v, %s, miners %s", what, limit, last.Epoch, last.Phase, last.Reason, states(last))
	return nil
}

func states(v *orchestrator.View) string {
	s := ""
	for _, m := range v.Miners {
		s += fmt.Sprintf(" %d:%d:%s", m.Number, m.Stage, m.State)
	}
	return s
}

// now is the run as it is.
func (c *chaos) now() *orchestrator.View {
	c.Helper()
	return c.await("an answer", 30*time.Second, func(*orchestrator.View) bool { return true })
}

// progress waits until so many further epochs are installed.
func (c *chaos) progress(epochs uint64, limit time.Duration) *orchestrator.View {
	c.Helper()
	from := c.now().Epoch
	return c.await(fmt.Sprintf("%d epochs after the %dth", epochs, from), limit, func(v *orchestrator.View) bool { return v.Epoch >= from+epochs })
}

// lawful holds what is true of every honest run at every moment: nothing is lost or counted twice, and nobody is
// punished.
func (c *chaos) lawful(v *orchestrator.View) {
	c.Helper()
	for _, s := range v.Stages {
		if s.Merged+s.Unmerged+s.Open != s.Acknowledged {
			c.Fatalf("stage %d: merged %d, unmerged %d and open %d do not make the %d acknowledged", s.Index, s.Merged, s.Unmerged, s.Open, s.Acknowledged)
		}
	}
	for _, m := range v.Miners {
		if m.Failed > 0 || m.Barred != "" || m.Pay.Slashed > 0 {
			c.Fatalf("miner %d is honest and punished: %d failed verdicts, slashed %d, barred %q", m.Number, m.Failed, m.Pay.Slashed, m.Barred)
		}
	}
	for _, w := range v.Validators {
		if w.State == "barred" || w.Mismatches > 0 {
			c.Fatalf("validator %d is honest and %s, with %d mismatches", w.Number, w.State, w.Mismatches)
		}
	}
	if v.Audits.Mismatches > 0 {
		c.Fatalf("%d audits of honest work failed", v.Audits.Mismatches)
	}
}

// kept fails unless nothing of the earlier view was lost.
func (c *chaos) kept(before, after *orchestrator.View) {
	c.Helper()
	if after.Counters.Tokens < before.Counters.Tokens || after.Epoch < before.Epoch || len(after.Miners) < len(before.Miners) {
		c.Fatalf("after: epoch %d, %d tokens, %d miners; before: epoch %d, %d tokens, %d miners", after.Epoch, after.Counters.Tokens,
			len(after.Miners), before.Epoch, before.Counters.Tokens, len(before.Miners))
	}
	for i, s := range after.Stages {
		b := before.Stages[i]
		if s.Acknowledged < b.Acknowledged || s.Merged < b.Merged || s.Unmerged < b.Unmerged {
			c.Fatalf("stage %d: %+v before, %+v after", i, b, s)
		}
		if s.CheckpointEpoch == b.CheckpointEpoch && s.Checkpoint != b.Checkpoint {
			c.Fatalf("stage %d: the checkpoint of epoch %d is %s, and was %s", i, s.CheckpointEpoch, s.Checkpoint, b.Checkpoint)
		}
	}
	for _, was := range before.Epochs {
		at := slices.IndexFunc(after.Epochs, func(e orchestrator.EpochReport) bool { return e.Epoch == was.Epoch })
		if at >= 0 && !reflect.DeepEqual(after.Epochs[at], was) {
			c.Fatalf("epoch %d was %+v, and is %+v", was.Epoch, was, after.Epochs[at])
		}
	}
}

// verify replays the journal of an orchestrator that does not run.
func (c *chaos) verify() {
	c.Helper()
	if out, err := command("journal", "verify", "--dir", c.folder()); err != nil {
		c.Fatalf("iota journal verify: %v: %s", err, out)
	}
}

// interrupt ends a process as ctrl-C does.
func (c *chaos) interrupt(p *process) {
	c.Helper()
	p.signal(syscall.SIGINT)
	c.ends(p)
}

// working reports whether every participant is connected and some work was acknowledged since.
func (c *chaos) working(since *orchestrator.View) func(*orchestrator.View) bool {
	return func(v *orchestrator.View) bool {
		present := map[string]bool{}
		for _, m := range v.Miners {
			present[m.ID] = m.State != "absent"
		}
		for _, w := range v.Validators {
			present[w.ID] = w.State != "absent"
		}
		for _, p := range c.participants {
			if !present[p.id()] {
				return false
			}
		}
		return acknowledged(v) > acknowledged(since)
	}
}

// inStage returns the processes of the miners of a stage.
func (c *chaos) inStage(v *orchestrator.View, stage int) (list []*process) {
	for _, m := range v.Miners {
		for _, p := range c.participants {
			if m.Stage == stage && p.id() == m.ID {
				list = append(list, p)
			}
		}
	}
	return list
}

func acknowledged(v *orchestrator.View) (n uint64) {
	for _, s := range v.Stages {
		n += s.Acknowledged
	}
	return n
}

// mergedTokens is how many tokens the merges took in, as a mean over the stages.
func mergedTokens(v *orchestrator.View) float64 {
	last := v.Stages[len(v.Stages)-1]
	var n uint64
	for _, s := range v.Stages {
		n += s.Merged
	}
	return float64(n) / float64(len(v.Stages)) * ratio(float64(v.Counters.Tokens), float64(last.Acknowledged))
}

// pace is how many tokens per second are merged during so much real time, in which something may be done.
func (c *chaos) pace(length time.Duration, meanwhile func()) float64 {
	c.Helper()
	before, began := c.now(), time.Now()
	for end := began.Add(length); time.Now().Before(end); {
		meanwhile()
	}
	after := c.now()
	c.kept(before, after)
	return (mergedTokens(after) - mergedTokens(before)) / time.Since(began).Seconds()
}

// privileged skips a test that needs rights which this process does not have.
func privileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}
