//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/iota-train/iota/role/orchestrator"
)

// disk mounts a small disk at a folder until the test ends.
func disk(t *testing.T, folder string, size int) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", folder, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("mount a disk: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
}

// fill takes all room of a disk.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for b := make([]byte, 64<<10); ; {
		n, err := f.Write(b[:max(1, len(b))])
		if errors.Is(err, syscall.ENOSPC) && len(b) == 1 {
			return
		}
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if n < len(b) {
			b = b[:1]
		}
	}
}

func TestChaosFullDiskOfTheOrchestratorLosesNothing(t *testing.T) {
	lengthy(t)
	privileged(t)
	dir := t.TempDir()
	disk(t, filepath.Join(dir, "run"), 64<<20)
	c := chaosIn(t, dir).with(3)
	before := c.now()
	c.withoutRoom(filepath.Join(c.folder(), "filler"), func() {
		if v, err := c.ask(); err == nil {
			c.lawful(v)
			before = v
		}
	})
	c.kept(before, c.await("everybody at work", time.Minute, c.working(before)))
	c.progress(2, time.Minute)

	// Killed without room, it is taken up when there is some.
	c.withoutRoom(filepath.Join(c.folder(), "filler"), c.orchestrator.kill)
	c.kept(before, c.progress(2, time.Minute))
}

func TestChaosFullDiskOfAMinerStopsNobodyElse(t *testing.T) {
	lengthy(t)
	privileged(t)
	dir := t.TempDir()
	disk(t, filepath.Join(dir, "miner1"), 16<<20)
	c := chaosIn(t, dir).with(6)
	c.withoutRoom(filepath.Join(c.participants[0].dir, "filler"), func() {})
	before := c.now()
	c.kept(before, c.await("everybody at work", time.Minute, c.working(before)))
	c.progress(2, time.Minute)
}

// withoutRoom takes a disk's room for a while, does something, gives the room back and starts again who ended for lack
// of it, which must have said so.
func (c *chaos) withoutRoom(filler string, meanwhile func()) {
	c.Helper()
	for end := time.Now().Add(long(2*time.Second, 12*time.Second)); time.Now().Before(end); pass(100 * time.Millisecond) {
		fill(c.T, filler)
	}
	meanwhile()
	for _, p := range c.all() {
		room := p.said("no room") + p.said("free some space")
		if room > 0 {
			c.Logf("%s (runs on: %v) says so", p.name, p.running())
		} else if !p.running() && p != c.orchestrator {
			c.Errorf("%s ended: %s", p.name, p.lastLine())
		}
	}
	if err := os.Remove(filler); err != nil {
		c.Fatal(err)
	}
	if !c.orchestrator.running() {
		c.verify()
	}
	for _, p := range c.all() {
		if !p.running() {
			p.start(c.T)
		}
	}
}

// clear fails unless the last thing that a process said is one line that says what to do.
func (c *chaos) clear(p *process, advice string) {
	c.Helper()
	last := p.lastLine()
	c.Logf("%s: %s", p.name, last)
	if !strings.HasPrefix(last, "iota: ") || !strings.Contains(last, advice) {
		c.Errorf("%s ended without saying what to do (%q)", p.name, advice)
	}
}

func TestChaosDamagedBlobsAreNotTrainedOn(t *testing.T) {
	c := newChaos(t, "--validators", "1")
	c.validator()
	c.with(6)
	flipped := 0
	for end := time.Now().Add(long(5*time.Second, 15*time.Second)); time.Now().Before(end); pass(20 * time.Millisecond) {
		flipped += c.damageBlob()
	}
	before := c.now()
	t.Logf("%d blobs damaged: %d audits without a verdict, %d micro-batches rerouted", flipped, before.Audits.Unverified, before.Counters.Rerouted)
	c.await("everybody at work", time.Minute, c.working(before))
	c.progress(2, time.Minute)
}

func TestChaosDamageAtRestIsNamedAndCanBeUndone(t *testing.T) {
	c := newChaos(t).with(6)
	before := c.now()
	c.killAll()
	whole := map[string][]byte{}
	for _, path := range c.blobs() {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole[path] = b
		c.flip(path)
	}
	for _, p := range c.all() {
		p.start(t)
	}
	// No miner has the weights any more: the run waits, and names what it needs from a backup.
	c.await("the run to say what to restore", time.Minute, func(v *orchestrator.View) bool {
		return slices.ContainsFunc(v.Alerts, func(a orchestrator.Alert) bool { return strings.Contains(a.Text, "restore blob") })
	})
	for path, b := range whole {
		write(t, path, b)
	}
	c.kept(before, c.await("everybody at work", time.Minute, c.working(before)))
	c.progress(2, time.Minute)
}

// blobs are the files of the run's store.
func (c *chaos) blobs() (paths []string) {
	_ = filepath.WalkDir(filepath.Join(c.folder(), "blobs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			paths = append(paths, path)
		}
		return nil // files come and go meanwhile
	})
	return paths
}

// damageBlob flips a bit of a blob that is drawn, and returns how many it met.
func (c *chaos) damageBlob() int {
	paths := c.blobs()
	if len(paths) == 0 {
		return 0
	}
	return c.flip(paths[c.rng.IntN(len(paths))])
}

// flip flips a bit of a file, if it is there.
func (c *chaos) flip(path string) int {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0
	}
	b, at := []byte{0}, c.rng.Int64N(info.Size())
	if _, err := f.ReadAt(b, at); err != nil {
		return 0
	}
	b[0] ^= 1 << c.rng.IntN(8)
	if _, err := f.WriteAt(b, at); err != nil {
		return 0
	}
	return 1
}

func TestChaosDamagedTailOfTheJournal(t *testing.T) {
	c := newChaos(t).with(3)
	wal := filepath.Join(c.folder(), journalName+".wal")
	for _, damage := range []struct {
		name    string
		change  func([]byte) []byte
		refused bool
	}{
		{"a flipped bit in the last record", func(b []byte) []byte { b[lastByte(b)] ^= 4; return b }, true},
		{"a file that is cut off", func(b []byte) []byte { return b[:lastByte(b)] }, true},
		{"a last sector that was never written", func(b []byte) []byte {
			clear(b[lastByte(b)/512*512:])
			return b
		}, false},
	} {
		before, whole := c.now(), []byte(nil)
		for lastByte(whole) < 512 { // the file begins anew now and then
			if whole != nil {
				c.orchestrator.start(t)
				before = c.progress(1, time.Minute)
			}
			c.orchestrator.kill()
			b, err := os.ReadFile(wal)
			if err != nil {
				t.Fatal(err)
			}
			whole = b
		}
		write(t, wal, damage.change(slices.Clone(whole)))
		out, err := command("journal", "verify", "--dir", c.folder())
		if (err != nil) != damage.refused {
			t.Fatalf("%s: %v: %s", damage.name, err, out)
		}
		t.Logf("%s: %s", damage.name, out)
		if damage.refused {
			c.orchestrator.start(t)
			<-c.orchestrator.ended
			c.clear(c.orchestrator, "bring back a copy")
			write(t, wal, whole)
		}
		c.verify()
		c.orchestrator.start(t)
		if first := c.now(); damage.refused {
			c.kept(before, first)
		}
		c.await("everybody at work", time.Minute, c.working(c.now()))
		c.progress(2, time.Minute)
	}
}

func lastByte(b []byte) int {
	for i := len(b) - 1; i > 0; i-- {
		if b[i] != 0 {
			return i
		}
	}
	return 0
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
