package main

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/iota-train/iota/edge/journal/postgrestest"
	"github.com/iota-train/iota/protocol/message"
)

// output collects what a command writes, and hands on its first line.
type output struct {
	mu    sync.Mutex
	text  strings.Builder
	first chan string
}

func newOutput() *output { return &output{first: make(chan string, 1)} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text.Len() == 0 {
		line, _, _ := strings.Cut(string(b), "\n")
		o.first <- line
	}
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// bucket starts an S3 server in this process and returns what --store says of it.
func bucket(t *testing.T) string {
	backend := s3mem.New()
	if err := backend.CreateBucket("blobs"); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(web.Close)
	for _, v := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(v, "test")
	}
	t.Setenv("AWS_REGION", "us-east-1")
	return "s3+http://" + strings.TrimPrefix(web.URL, "http://") + "/blobs/run"
}

// orchestrate starts an orchestrator of a small run; done gives what came of it.
func orchestrate(t *testing.T, ctx context.Context, dir string, p place, serve string) (out *output, done chan error) {
	o := &orchestratorOptions{options: *nano(dir), place: p, serve: serve}
	o.remote, o.validators, o.auditShare, o.shardShare, o.epochs = true, 1, 0.2, 1, 8
	out, done = newOutput(), make(chan error, 1)
	go func() { done <- o.run(ctx, out, &lines{t: t}) }()
	return out, done
}

// lines are log lines of a test.
type lines struct{ t *testing.T }

func (l *lines) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// join starts three miners and a validator.
func join(t *testing.T, ctx context.Context, address string, all *sync.WaitGroup) {
	dir := t.TempDir()
	for i := range 4 {
		p := &participant{role: message.Role_MINER, join: address, dir: filepath.Join(dir, fmt.Sprint(i)), threads: 1}
		if i == 3 {
			p.role = message.Role_VALIDATOR
		}
		all.Go(func() {
			if err := p.run(ctx, &lines{t}); err != nil {
				t.Errorf("participant %d: %v", i, err)
			}
		})
	}
}

func TestARunIsKeptInADatabaseAndABucket(t *testing.T) {
	for name, p := range map[string]func(*testing.T) place{
		"folder":   func(*testing.T) place { return place{} },
		"bucket":   func(t *testing.T) place { return place{store: bucket(t)} },
		"database": func(t *testing.T) place { return place{journal: postgrestest.URL(t)} },
		"both":     func(t *testing.T) place { return place{journal: postgrestest.URL(t), store: bucket(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			dir := t.TempDir()
			out, done := orchestrate(t, ctx, dir, p(t), "127.0.0.1:0")
			var all sync.WaitGroup
			select {
			case address := <-out.first:
				join(t, ctx, address, &all)
				if err := <-done; err != nil {
					t.Error(err)
				}
			case err := <-done:
				t.Fatal(err)
			}
			all.Wait()
			if text := out.String(); !strings.Contains(text, "Trained nano") || !strings.Contains(text, "No shard was lost") {
				t.Errorf("output:\n%s", text)
			}
		})
	}
}

// A standby on another folder with the same key takes over what the first orchestrator leaves, at its address.
func TestAStandbyTakesOver(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	kept := place{journal: postgrestest.URL(t), store: bucket(t)}
	first, second, key := t.TempDir(), t.TempDir(), freshKey()
	for _, dir := range []string{first, second} {
		if _, err := loadKey(filepath.Join(dir, keyName), func() ed25519.PrivateKey { return key }); err != nil {
			t.Fatal(err)
		}
	}
	primary, stop := context.WithCancel(ctx)
	defer stop()
	out, done := orchestrate(t, primary, first, kept, "127.0.0.1:0")
	address := <-out.first
	_, host, _ := strings.Cut(address, "@")
	waiting := kept
	waiting.standby = true
	next, finished := orchestrate(t, ctx, second, waiting, host)
	var all sync.WaitGroup
	join(t, ctx, address, &all)
	for {
		s, err := askFolder(ctx, first)
		if err != nil {
			t.Fatal(err)
		}
		if s.View.Epoch >= 2 {
			break
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if again := <-next.first; again != address {
		t.Errorf("the standby is at %s, its predecessor was at %s", again, address)
	}
	if err := <-finished; err != nil {
		t.Error(err)
	}
	all.Wait()
	if text := next.String(); !strings.Contains(text, ": 8 epochs,") {
		t.Errorf("output of the standby:\n%s", text)
	}
}
