//go:build linux

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iota-train/iota/edge/remote"
	"github.com/iota-train/iota/protocol/message"
)

func TestChaosTwoProcessesWithOneKey(t *testing.T) {
	c := newChaos(t).with(6)
	first := c.participants[0]
	key, err := os.ReadFile(filepath.Join(first.dir, keyName))
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(c.dir, "miner7")
	if err := os.MkdirAll(copied, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(copied, keyName), key)
	second := c.miner()
	c.ends(first)
	if !strings.Contains(first.lastLine(), "same key") || c.orchestrator.said("same key") != 1 {
		t.Errorf("not told that another process has the key: %s", first.lastLine())
	}
	c.await("everybody at work", time.Minute, c.working(c.now()))
	before := c.progress(2, time.Minute)
	// The other way round: the first one takes its place back, and nobody else notices.
	first.start(t)
	c.ends(second)
	c.kept(before, c.progress(2, time.Minute))
}

// ends waits for the end of a process.
func (c *chaos) ends(p *process) {
	c.Helper()
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		c.Fatalf("%s does not end", p.name)
	}
}

func TestChaosFloodOfRegistrations(t *testing.T) {
	c := newChaos(t).with(6)
	length := long(3*time.Second, 15*time.Second)
	calm, size := c.pace(length, func() { pass(time.Second) }), c.resident()
	keys := make(chan ed25519.PrivateKey)
	var flood sync.WaitGroup
	var welcome, turned sync.Map
	for range 8 {
		flood.Go(func() {
			for key := range keys {
				if err := comeAndGo(c.direct, key); err != nil {
					turned.Store(err.Error(), true)
				} else {
					welcome.Store(string(key), true)
				}
			}
		})
	}
	const crowd = 500
	began := time.Now()
	before := c.now()
	for range crowd {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys <- key
	}
	close(keys)
	flood.Wait()
	took := time.Since(began)
	after := c.now()
	flooded := (mergedTokens(after) - mergedTokens(before)) / took.Seconds()
	served := 0
	welcome.Range(func(any, any) bool { served++; return true })
	turned.Range(func(why, _ any) bool { t.Logf("turned away: %v", why); return true })
	t.Logf("%d keys, %d of them served, came and went in %v: %.0f tokens/s merged, %.0f without; the orchestrator held %d MiB before, %d MiB after",
		crowd, served, took.Round(time.Millisecond), flooded, calm, size>>20, c.resident()>>20)
	c.await("everybody at work", time.Minute, c.working(c.now()))
	v := c.progress(2, 2*time.Minute)
	t.Logf("epoch %d, %d miners known, the orchestrator holds %d MiB", v.Epoch, len(v.Miners), c.resident()>>20)
	if grown := c.resident() - size; grown > 512<<20 {
		t.Errorf("the orchestrator grew by %d MiB", grown>>20)
	}
}

// comeAndGo registers a miner, waits for the answer and leaves.
func comeAndGo(a remote.Address, key ed25519.PrivateKey) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := remote.Dial(a, key)
	if err != nil {
		return err
	}
	defer client.Close()
	m, err := client.Manifest(ctx)
	if err != nil {
		return err
	}
	conn, err := client.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	register := &message.Register{Session: make([]byte, 16), Numerics: m.GetNumerics()}
	if err := conn.Send(ctx, message.Encode(&message.Envelope{Kind: &message.Envelope_Register{Register: register}})); err != nil {
		return err
	}
	_, err = conn.Recv(ctx)
	return err
}

// resident is how many bytes of memory the orchestrator holds.
func (c *chaos) resident() int {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.orchestrator.cmd.Process.Pid), "status"))
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest + " 0")[0])
	if err != nil {
		c.Fatal(err)
	}
	return kib << 10
}

// A process's clock is not to be set for it alone: its binary reads the kernel's clock without the C library, which is
// where libfaketime stands, and there is no namespace for the time of day. So what could depend on it is looked at:
// certificates, which a participant dates by its clock, and the orchestrator's, which it checks against its clock.
func TestChaosWrongClocksJoin(t *testing.T) {
	c := newChaos(t)
	for _, year := range []int{1971, 2026, 2199} {
		clock := time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		dated := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: clock, NotAfter: clock.Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, dated, dated, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", c.direct.Host, &tls.Config{
			Certificates:       []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			Time:               func() time.Time { return clock },
			InsecureSkipVerify: true, // a participant compares the key
			NextProtos:         []string{"h2"},
		})
		if err != nil {
			t.Fatalf("%d: %v", year, err)
		}
		// With TLS 1.3 the server's word on a certificate comes with the first read.
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Errorf("%d: %v", year, err)
		}
		shown := conn.ConnectionState().PeerCertificates[0]
		if year > 2020 && (clock.Before(shown.NotBefore) || clock.After(shown.NotAfter)) {
			t.Errorf("in %d the orchestrator's certificate is not valid: %v to %v", year, shown.NotBefore, shown.NotAfter)
		}
		conn.Close()
	}
}
