//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iota-train/iota/edge/journal/postgrestest"
)

// The commands are those of the README, but for the addresses and the folders.
func TestFiveProcessesLearnTheSample(t *testing.T) {
	lengthy(t)
	c := fiveProcesses(t)
	c.verify()
	if _, err := os.Stat(filepath.Join(c.folder(), ledgerName)); err != nil {
		t.Error(err)
	}
	if out, err := command("ledger", "verify", "--dir", c.folder()); err != nil {
		t.Error(out)
	}
}

func TestFiveProcessesLearnTheSampleFromABucket(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	fiveProcesses(t, "--store", bucket(t)).verify()
}

func TestFiveProcessesLearnTheSampleWithADatabase(t *testing.T) {
	lengthy(t)
	fiveProcesses(t, "--journal", postgrestest.URL(t))
}

// fiveProcesses starts an orchestrator, three miners and a validator, and ends them when they have learned.
func fiveProcesses(t *testing.T, settings ...string) *chaos {
	t.Helper()
	const want = 3.0
	dir := t.TempDir()
	config := filepath.Join(dir, "run.yaml")
	if out, err := command("init", config); err != nil {
		t.Fatal(out)
	}
	c := chaosIn(t, dir, append([]string{"--config", config, "--preset", "tiny"}, settings...)...)
	for range 3 {
		c.miner()
	}
	c.validator()
	var r report
	for end := time.Now().Add(2 * time.Minute); ; pass(500 * time.Millisecond) {
		out, err := command("status", "--dir", c.folder(), "--json")
		if err == nil {
			err = json.Unmarshal([]byte(out), &r)
		}
		if err != nil {
			t.Fatalf("iota status: %v: %s", err, out)
		}
		if r.LossEval > 0 && r.LossEval <= want {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("loss_eval is %.2f after %.0f s and %d tokens", r.LossEval, r.Seconds, r.Tokens)
		}
	}
	t.Logf("loss_eval %.3f after %.1f s and %d tokens", r.LossEval, r.Seconds, r.Tokens)
	c.lawful(c.now())
	for _, p := range c.all() {
		c.interrupt(p)
		if code := p.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(p.lastLine(), "stopped") {
			t.Errorf("%s ended with code %d: %s", p.name, code, p.lastLine())
		}
	}
	return c
}
