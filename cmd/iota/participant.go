package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/remote"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/validator"
)

// participant is a miner or a validator in a process of its own.
type participant struct {
	role      message.Role
	join, dir string
	listen    string
	threads   int
}

func minerCommand() *cobra.Command {
	return participantCommand(&participant{role: message.Role_MINER}, "Lend this machine to a run",
		"Joins a run: takes over a stage of the model, trains it with the other miners, and earns by the work that holds.\n"+
			"It keeps its key and its private state in --dir and goes on from there. It needs no file of the run's text, and waits\n"+
			"for an orchestrator that is away.")
}

func validatorCommand() *cobra.Command {
	return participantCommand(&participant{role: message.Role_VALIDATOR}, "Check the work of a run's miners",
		"Joins a run and replays the work of its miners that the orchestrator draws, through the miners' own code. It keeps its\n"+
			"key in --dir.")
}

func participantCommand(p *participant, short, long string) *cobra.Command {
	name := p.name()
	c := &cobra.Command{
		Use: name, Short: short, Long: long, Args: noArgs,
		Example: "  iota " + name + " --join KEY@HOST:4040 --dir " + name + "1",
		RunE: func(c *cobra.Command, _ []string) error {
			return p.run(c.Context(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&p.join, "join", "", "the run: KEY@HOST:PORT, the first line that its orchestrator prints")
	f.StringVar(&p.dir, "dir", "", "folder for the key and the state")
	f.IntVar(&p.threads, "threads", 0, "processors to compute with (default: all)")
	f.StringVar(&p.listen, "listen", "off", "address of /metrics, /healthz and /readyz, as in 127.0.0.1:8081")
	return c
}

func (p *participant) name() string {
	if p.role == message.Role_VALIDATOR {
		return "validator"
	}
	return "miner"
}

// check refuses what the command line alone shows to be wrong.
func (p *participant) check() (a remote.Address, err error) {
	switch {
	case p.join == "":
		return a, usagef("name the run with --join KEY@HOST:PORT: its orchestrator prints that")
	case p.dir == "":
		return a, usagef("name a folder for the key and the state with --dir")
	case p.threads < 0 || p.threads > 4*cores:
		return a, usagef("--threads %d: use 1 to %d, or leave it out for all processors", p.threads, cores)
	case p.threads == 0:
		p.threads = cores
	}
	if a, err = remote.ParseAddress(p.join); err != nil {
		return a, usagef("--join: %w", err)
	}
	return a, nil
}

// run works until the run is finished, or until ctx ends, which leaves everything to be taken up.
func (p *participant) run(ctx context.Context, stderr io.Writer) error {
	address, err := p.check()
	if err != nil {
		return err
	}
	if err := kernel.Check(); err != nil {
		return fmt.Errorf("this machine does not compute what runs define: %w", err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, runName)); err == nil {
		return usagef("--dir %s is an orchestrator's folder: every process needs one of its own", p.dir)
	}
	unlock, err := node.LockFolder(p.dir)
	if err != nil {
		return err
	}
	defer unlock()
	key, err := loadKey(filepath.Join(p.dir, keyName), freshKey)
	if err != nil {
		return err
	}
	log := newLog(stderr).With(p.name(), message.Short(key.Public().(ed25519.PublicKey)))
	client, err := remote.Dial(address, key)
	if err != nil {
		return err
	}
	defer client.Close()
	var driver atomic.Pointer[node.Miner]
	page, err := serveParticipant(p.listen, &driver)
	if err != nil {
		return err
	}
	defer page.close()
	m, engine, err := p.prepare(ctx, client, key, log)
	if err == nil {
		defer engine.Close()
		driver.Store(m)
		err = p.work(ctx, m, log)
	}
	if ctx.Err() != nil {
		log.Info("stopped: the same command goes on")
		return nil
	}
	if err == nil {
		log.Info("the run is finished")
	}
	return explain(err)
}

// leaveWithin bounds for how long a miner that is told to end stays for the work that it holds. A service manager has to
// wait longer than that before it kills.
const leaveWithin = 30 * time.Second

// work runs the driver until the run is finished or ctx ends. A miner hands over what it holds first: it asks to be let go,
// and goes when it is, or its time is up. A validator's replays are given to another one.
func (p *participant) work(ctx context.Context, m *node.Miner, log *slog.Logger) error {
	if p.role == message.Role_VALIDATOR {
		return m.Run(ctx)
	}
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	asked := context.AfterFunc(ctx, func() {
		if !m.Labours().Connected {
			cancel()
			return
		}
		log.Info("leaving once nothing is lost by it; a second signal ends at once", "within", leaveWithin.String())
		m.Leave()
		timer := time.AfterFunc(leaveWithin, cancel)
		context.AfterFunc(working, func() { timer.Stop() })
	})
	defer asked()
	return m.Run(working)
}

// prepare learns from the orchestrator what the run is and returns a driver for it.
func (p *participant) prepare(ctx context.Context, client *remote.Client, key ed25519.PrivateKey, log *slog.Logger) (*node.Miner, *kernel.Engine, error) {
	m, err := awaitManifest(ctx, client, log)
	if err != nil {
		return nil, nil, err
	}
	numerics, err := kernel.ParseNumerics(m.GetNumerics())
	if err != nil {
		return nil, nil, fmt.Errorf("%w: use the release that the orchestrator has", err)
	}
	home := filepath.Join(p.dir, m.GetRun())
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, nil, err
	}
	blobs := blobsOf(client)
	text, err := node.FetchData(ctx, blobs, m.GetData(), filepath.Join(home, "text"))
	if err != nil {
		return nil, nil, err
	}
	log = log.With("run", m.GetRun())
	engine := kernel.NewFor(numerics, p.threads)
	c := node.MinerConfig{
		Dial: client.Connect, Blobs: blobs, Gate: node.NewGate(1), Numerics: m.GetNumerics(), Role: p.role, Log: log,
		Joined: func() { log.Info("joined the run", "preset", m.GetPreset()) },
		Start: func(session []byte) (node.Worker, error) {
			return validator.New(m, key, session, text, engine)
		},
	}
	if p.role == message.Role_MINER {
		state := filepath.Join(home, stateName)
		c.Save = saver(state)
		c.Start = func(session []byte) (node.Worker, error) {
			return startMiner(m, key, session, text, engine, state, log)
		}
	}
	return node.NewMiner(c), engine, nil
}

// blobsOf is the run's store: a bucket, or what the orchestrator keeps.
func blobsOf(client *remote.Client) node.Blobs {
	if client.Bucket() {
		return store.NewPresigned(client.Presign)
	}
	return client
}

// awaitManifest asks the orchestrator what the run is, again and again while it cannot be reached.
func awaitManifest(ctx context.Context, client *remote.Client, log *slog.Logger) (*message.Manifest, error) {
	for told := false; ; told = true {
		m, err := client.Manifest(ctx)
		if err == nil || errors.Is(err, transport.ErrDenied) || ctx.Err() != nil {
			return m, err
		}
		if !told {
			log.Warn("waiting for the orchestrator", "err", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
