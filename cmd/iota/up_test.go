package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iota-train/iota/role/orchestrator"
)

// listener is an output that reports its lines.
type listener struct {
	mu   sync.Mutex
	text bytes.Buffer
	line func(string)
}

func (l *listener) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	l.line(string(b))
	return len(b), nil
}

func nano(dir string) *options {
	return &options{preset: "nano", tokenizer: "bytes", precision: "f32", share: "f32", aggregate: "mean", listen: "off", dir: dir, epochs: 1000}
}

func TestInterruptFinishesCleanlyAndTheRunGoesOnLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	for round, first := range []string{"\nepoch 0: ", "\nresuming run "} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &listener{}
		out.line = func(s string) {
			if strings.HasPrefix(s, fmt.Sprintf("epoch %d:", 2+5*round)) {
				cancel()
			}
		}
		if err := nano(dir).up(ctx, out, io.Discard); err != nil {
			t.Fatal(err)
		}
		text := out.text.String()
		if !strings.HasPrefix(text, "memory per miner, at most: stage 0 ") || !strings.Contains(text, first) || !strings.Contains(text, "\nTrained nano") {
			t.Errorf("output of round %d:\n%s", round, text)
		}
		v, err := verifyFolder(dir)
		if err != nil || v.Epochs < uint64(3+5*round) {
			t.Errorf("round %d: %d epochs, %v", round, v.Epochs, err)
		}
	}
}

// TestKillAtAnyMoment kills the process ten times, each time at another random moment. An epoch of nano is about a
// thousand tokens, and its loss alone varies by more than the bound without any kill: so the mean of the first three
// full epochs after a kill is held against that of the last three before.
func TestKillAtAnyMoment(t *testing.T) {
	seed := rand.Uint64()
	dice := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(t.TempDir(), "run")
	const compared = 3
	var before []float64
	next := 0
	for kill := range 10 {
		c := exec.Command("iota", "up", "--preset", "nano", "--epochs", "1000", "--listen", "off", "--dir", dir)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var trouble bytes.Buffer
		c.Stderr = &trouble
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		var losses []float64 // of the epochs that ended in this process; the first may have begun in the one before
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var epoch int
			var l float64
			if n, _ := fmt.Sscanf(lines.Text(), "epoch %d: loss %g,", &epoch, &l); n < 2 {
				continue
			}
			if epoch < next {
				t.Errorf("kill %d: epoch %d again, after %d", kill, epoch, next-1)
			}
			losses, next = append(losses, l), epoch+1
			if len(losses) == 1+compared {
				if after := mean(losses[1:]); before != nil && after > 1.05*mean(before) {
					t.Errorf("kill %d: the losses were %v before and %v after", kill, before, losses[1:])
				}
				time.AfterFunc(time.Duration(dice.IntN(200))*time.Millisecond, func() { c.Process.Kill() })
			}
		}
		_ = c.Wait() // it was killed
		if len(losses) < 1+compared {
			t.Fatalf("kill %d: %d epochs, %s", kill, len(losses), &trouble)
		}
		before = losses[len(losses)-compared:]
		if _, err := verifyFolder(dir); err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func TestStatusPageShowsTheViewAndChangesNothing(t *testing.T) {
	o := nano("")
	o.epochs = 1
	n, _ := prepared(t, o)
	p, err := servePage("127.0.0.1:0", n.hub)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	defer http.DefaultClient.CloseIdleConnections()
	get := func(path string) string {
		r, err := http.Get("http://" + p.address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %s %v", path, r.Status, err)
		}
		return string(b)
	}
	var v orchestrator.View
	if err := json.Unmarshal([]byte(get("/api/v1/view")), &v); err != nil || v.Preset != "nano" || len(v.Stages) != 3 {
		t.Errorf("view %+v %v", v, err)
	}
	if text := get("/"); !strings.Contains(text, "Waiting") || !strings.Contains(text, "stage 2") {
		t.Errorf("page:\n%s", text)
	}
	if text := get("/metrics"); !strings.Contains(text, "\niota_phase{phase=\"Waiting\"} 1\n") {
		t.Errorf("metrics:\n%s", text)
	}
	if text := get("/healthz"); text != "ok\n" {
		t.Errorf("health: %s", text)
	}
	if r, err := http.Get("http://" + p.address + "/readyz"); err != nil || r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a run that nobody is let into is ready: %v", err)
	} else {
		if r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("headers %v", r.Header)
		}
		r.Body.Close()
	}
	r, err := http.Post("http://"+p.address+"/api/v1/view", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", r.Status)
	}
	if _, err := servePage(p.address, n.hub); err == nil || !strings.Contains(err.Error(), "choose another address with --listen") {
		t.Errorf("a port in use: %v", err)
	}
}

// prepared returns a network that was not started.
func prepared(t *testing.T, o *options) (*network, func()) {
	t.Helper()
	c, tokenizer, err := o.shape()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.check(c); err != nil {
		t.Fatal(err)
	}
	text, err := o.text(c, tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	n := &network{text: text}
	n.log = quiet()
	done, err := o.prepare(n, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	return n, done
}

func TestSameSeedMakesTheSameRun(t *testing.T) {
	var manifests []string
	for _, seed := range []uint64{4, 4, 5} {
		o := nano("")
		o.seed, o.seeded = seed, true
		n, _ := prepared(t, o)
		manifests = append(manifests, n.manifest.String()+string(n.keys[0]))
	}
	if manifests[0] != manifests[1] || manifests[0] == manifests[2] {
		t.Error("the seed does not decide the run")
	}
}
