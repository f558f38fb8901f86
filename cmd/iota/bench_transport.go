package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/iota-train/iota/edge/remote"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
)

// transportBench measures tensors on their way to and from an orchestrator, and what idle miners cost it.
type transportBench struct {
	tensor   int // MiB
	amount   int // MiB per round and direction
	parallel int // transfers at once
	rounds   int
	miners   int
	idle     time.Duration
}

func benchTransportCommand() *cobra.Command {
	b := &transportBench{}
	var asJSON bool
	c := &cobra.Command{
		Use: "transport", Short: "Tensors over gRPC and TLS, beside TLS alone, and what idle miners cost", Args: noArgs,
		Long: "Stores and fetches tensors over one connection of a participant on this machine, as miners do, and sends as many\n" +
			"bytes over a plain TLS connection, whose receiver throws them away (raw_tls) or hashes them, as every receiver of a\n" +
			"blob must (raw_tls_hashed). They run round by round in turn; the medians are compared. Both ends share the processors.\n\n" +
			"Then miners that have nothing to do, as there is nothing to validate in their run, connect to an orchestrator with its\n" +
			"journal in memory, and the processor time of the whole process is measured: that of the orchestrator and of the miners.",
		Example: "  iota bench transport\n  iota bench transport --tensor 16 --parallel 1 --json",
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := b.run(c.Context())
			if err != nil {
				return explain(err)
			}
			return r.print(c.OutOrStdout(), asJSON)
		},
	}
	f := c.Flags()
	f.IntVar(&b.tensor, "tensor", 4, "MiB of a tensor")
	f.IntVar(&b.amount, "amount", 512, "MiB of a round in each direction")
	f.IntVar(&b.parallel, "parallel", 4, "transfers at once")
	f.IntVar(&b.rounds, "rounds", 5, "rounds of which the median counts")
	f.IntVar(&b.miners, "miners", 100, "idle miners, 0 for none")
	f.DurationVar(&b.idle, "idle", 20*time.Second, "how long the idle miners are watched")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (b *transportBench) run(ctx context.Context) (*benchReport, error) {
	if b.tensor < 1 || b.tensor > 1024 || b.amount < b.tensor || b.parallel < 1 || b.rounds < 1 || b.miners < 0 || b.miners > 1000 || b.idle <= 0 {
		return nil, usagef("use --tensor of 1 to 1024, --amount of at least as much, --parallel and --rounds from 1, --miners up to 1000 and --idle above 0s")
	}
	r := &benchReport{Name: "transport", Config: map[string]any{"tensor_mib": b.tensor, "amount_mib": b.amount, "parallel": b.parallel,
		"rounds": b.rounds, "idle_miners": b.miners, "idle_seconds": b.idle.Seconds(), "cpus": cores}}
	if err := b.measure(ctx, r); err != nil {
		return nil, err
	}
	if b.miners == 0 {
		return r, nil
	}
	share, err := b.idleShare(ctx)
	if err != nil {
		return nil, err
	}
	r.add(fmt.Sprintf("%d idle miners and their orchestrator", b.miners), "cpu_share", share, "of a core", "limit", 0.02)
	return r, nil
}

// measure compares the ways, in turn.
func (b *transportBench) measure(ctx context.Context, r *benchReport) error {
	site, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer site.close()
	ways := []struct {
		metric string
		run    func(context.Context) error
		speeds []float64
	}{{"raw_tls_speed", site.plain, nil}, {"raw_tls_hashed_speed", site.hashed, nil}, {"put_speed", site.put, nil}, {"get_speed", site.get, nil}}
	for range b.rounds {
		for i := range ways {
			began := time.Now()
			if err := ways[i].run(ctx); err != nil {
				return err
			}
			ways[i].speeds = append(ways[i].speeds, float64(b.count()*b.tensor<<20)/time.Since(began).Seconds()/1e9)
		}
	}
	name := fmt.Sprintf("%d MiB tensors, %d at once", b.tensor, b.parallel)
	for _, w := range ways[1:] {
		r.add(name, w.metric, median(w.speeds), "GB/s", "raw_tls", median(ways[0].speeds))
	}
	for _, w := range ways[2:] {
		r.add(name, w.metric, median(w.speeds), "GB/s", "raw_tls_hashed", median(ways[1].speeds))
	}
	return nil
}

// count is the number of tensors of a round, as many for each transfer that runs at once.
func (b *transportBench) count() int { return max(1, b.amount/b.tensor/b.parallel) * b.parallel }

// transportSite is an orchestrator's and a participant's end, and a plain TLS connection, on this machine.
type transportSite struct {
	*transportBench
	tensors  []message.Blob
	store    *passing
	server   *remote.Server
	client   *remote.Client
	near     *tls.Conn
	far      *tls.Conn
	listener net.Listener
}

// passing is a store that forgets what it is given.
type passing struct{ *store.Memory }

func (p *passing) Put(ctx context.Context, b message.Blob) (store.Hash, error) {
	return store.Hash(b.Hash()), ctx.Err()
}

func (b *transportBench) open(ctx context.Context) (*transportSite, error) {
	s := &transportSite{transportBench: b, store: &passing{store.NewMemory(64 << 30)}}
	for range b.parallel {
		bytes := make([]byte, b.tensor<<20)
		if _, err := rand.Read(bytes); err != nil {
			return nil, err
		}
		s.tensors = append(s.tensors, message.NewBlob(bytes))
		if _, err := s.store.Memory.Put(ctx, s.tensors[len(s.tensors)-1]); err != nil {
			return nil, err
		}
	}
	server, address, err := listenFor(remote.ServerConfig{Blobs: s.store, Limits: remote.Limits{BytesPerSecond: 1 << 40}})
	if err != nil {
		return nil, err
	}
	s.server = server
	_, key, err := ed25519.GenerateKey(nil)
	if err == nil {
		s.client, err = remote.Dial(address, key)
	}
	if err == nil {
		_, err = s.client.Connect(ctx)
	}
	if err == nil {
		err = s.pair(ctx)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// listenFor starts a server on this machine.
func listenFor(c remote.ServerConfig) (*remote.Server, remote.Address, error) {
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, remote.Address{}, err
	}
	c.Key, c.Log = key, slog.New(slog.DiscardHandler)
	if c.Status == nil {
		c.Status = func() ([]byte, error) { return []byte("{}"), nil }
	}
	s, err := remote.NewServer(c)
	if err != nil {
		return nil, remote.Address{}, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, remote.Address{}, err
	}
	go s.Serve(l)
	return s, remote.Address{Key: public, Host: l.Addr().String()}, nil
}

// pair connects both ends of a plain TLS connection.
func (s *transportSite) pair(ctx context.Context) error {
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	dialled, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		return err
	}
	accepted, err := s.listener.Accept()
	if err != nil {
		return err
	}
	s.near, s.far = tls.Client(dialled, &tls.Config{InsecureSkipVerify: true}), tls.Server(accepted, config)
	var both errgroup.Group
	both.Go(func() error { return s.near.HandshakeContext(ctx) })
	both.Go(func() error { return s.far.HandshakeContext(ctx) })
	return both.Wait()
}

func (s *transportSite) close() {
	if s.client != nil {
		s.client.Close()
	}
	s.server.Close()
	for _, c := range []*tls.Conn{s.near, s.far} {
		if c != nil {
			c.Close()
		}
	}
	if s.listener != nil {
		s.listener.Close()
	}
}

// plain sends a round over TLS alone.
func (s *transportSite) plain(context.Context) error { return s.raw(func([]byte) {}) }

// hashed is plain with a receiver that hashes every tensor while the next one comes.
func (s *transportSite) hashed(context.Context) error { return s.raw(func(b []byte) { store.Sum(b) }) }

func (s *transportSite) raw(receive func([]byte)) error {
	var all errgroup.Group
	all.Go(func() error {
		for i := range s.count() {
			if _, err := s.near.Write(s.tensors[i%len(s.tensors)].Bytes()); err != nil {
				return err
			}
		}
		return nil
	})
	empty, full := make(chan []byte, 2), make(chan []byte, 2)
	for range cap(empty) {
		empty <- make([]byte, len(s.tensors[0].Bytes()))
	}
	all.Go(func() error {
		defer close(full)
		for range s.count() {
			b := <-empty
			if _, err := io.ReadFull(s.far, b); err != nil {
				return err
			}
			full <- b
		}
		return nil
	})
	all.Go(func() error {
		for b := range full {
			receive(b)
			empty <- b
		}
		return nil
	})
	return all.Wait()
}

func (s *transportSite) put(ctx context.Context) error {
	return s.share(func(b message.Blob) error { _, err := s.client.Put(ctx, b); return err })
}

func (s *transportSite) get(ctx context.Context) error {
	return s.share(func(b message.Blob) error {
		_, err := s.client.Get(ctx, store.Hash(b.Hash()), uint64(len(b.Bytes())))
		return err
	})
}

// share has every tensor transferred by a goroutine of its own, one time after the other.
func (s *transportSite) share(transfer func(message.Blob) error) error {
	var g errgroup.Group
	for _, b := range s.tensors {
		g.Go(func() error {
			for range s.count() / len(s.tensors) {
				if err := transfer(b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
