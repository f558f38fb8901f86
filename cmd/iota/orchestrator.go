package main

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/remote"
	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/message"
)

// orchestratorOptions are the flags of `iota orchestrator`, and so the keys of a run.yaml.
type orchestratorOptions struct {
	options
	place
	serve, public string
	admit         []string
	dryRun        bool
}

func orchestratorCommand() *cobra.Command {
	o := &orchestratorOptions{options: options{remote: true}}
	config := ""
	c := &cobra.Command{
		Use: "orchestrator", Short: "Start a run that miners on other machines join", Args: noArgs,
		Long: "Starts a run, or takes up the one in --dir where it was left, also after a kill. Its first line of output is the join\n" +
			"string for iota miner and iota validator. Ctrl-C stops it and leaves the run to be taken up: miners wait for it.",
		Example: "  iota init && iota orchestrator --config run.yaml --dir run\n  iota orchestrator --config run.yaml --dry-run --link 80mbit,50ms\n" +
			"  iota orchestrator --dir run --serve 127.0.0.1:4040 --preset tiny",
		RunE: func(c *cobra.Command, _ []string) error {
			if config != "" {
				if err := loadConfig(config, c.Flags()); err != nil {
					return err
				}
			}
			if err := o.replayed(c.Flags()); err != nil {
				return err
			}
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&config, "config", "", "file of flags, as iota init writes it; the command line overrides it")
	f.StringVar(&o.dir, "dir", "", "keep the run in this folder, and take it up from there")
	f.BoolVar(&o.standby, "standby", false, "wait until the orchestrator that has the run ends, and take over then")
	f.BoolVar(&o.dryRun, "dry-run", false, "print stages, memory and traffic, and start nothing")
	o.networkFlags(c)
	return c
}

// networkFlags are those that a run.yaml may hold.
func (o *orchestratorOptions) networkFlags(c *cobra.Command) {
	f := c.Flags()
	o.trainingFlags(f)
	f.Lookup("miners").Usage = "miners that --dry-run reckons with; any number may join (default: two per stage)"
	f.StringVar(&o.serve, "serve", ":4040", "address for miners and validators")
	f.StringVar(&o.public, "public", "", "HOST:PORT at which miners reach --serve, for the join string (default: --serve, or this machine's name)")
	f.StringArrayVar(&o.admit, "admit", nil, "public key that may join; repeatable (default: everybody may)")
	f.StringVar(&o.journal, "journal", "", "postgres://USER@HOST/DATABASE to keep the journal there (default: in --dir)")
	f.StringVar(&o.store, "store", "", "s3://ENDPOINT/BUCKET/PREFIX to keep blobs there (default: in --dir)")
	f.StringVar(&o.room, "room", "", "most that blobs may take, as in 200GB (default: what there is)")
	f.StringVar(&o.listen, "listen", defaultListen, "address of the read-only status page, or off")
	f.StringVar(&o.link, "link", "", "RATE,DELAY of a miner's link, as in 80mbit,50ms: what --dry-run reckons with")
}

// run is the command behind its flags.
func (o *orchestratorOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	c, tokenizer, err := o.shape()
	if err != nil {
		return err
	}
	if err := o.options.check(c); err != nil {
		return err
	}
	if err := o.place.check(); err != nil {
		return err
	}
	admit, err := admission(o.admit)
	if err != nil {
		return err
	}
	if o.dir == "" && !o.dryRun {
		return usagef("name a folder for the run with --dir")
	}
	text, err := o.text(c, tokenizer)
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.plan(stdout, c, text)
	}
	log := newLog(stderr)
	r, err := o.open(ctx, c, text, log)
	if err != nil && ctx.Err() != nil {
		return nil // a standby that is no longer needed
	}
	if err != nil {
		return explain(err)
	}
	defer r.folder.close()
	return r.serve(ctx, o, admit, stdout)
}

// hosted is a run that this process orchestrates.
type hosted struct {
	folder   *folder
	key      ed25519.PrivateKey
	manifest *message.Manifest
	hub      *node.Hub
	log      *slog.Logger
}

// open takes up the run of the folder, or begins one.
func (o *orchestratorOptions) open(ctx context.Context, c model.Config, text *data.Dataset, log *slog.Logger) (*hosted, error) {
	f, err := o.place.open(ctx, o.dir, log)
	if err != nil {
		return nil, err
	}
	r := &hosted{folder: f, log: log}
	if err := r.begin(ctx, o, c, text); err != nil {
		f.close()
		return nil, err
	}
	return r, nil
}

func (r *hosted) begin(ctx context.Context, o *orchestratorOptions, c model.Config, text *data.Dataset) error {
	want, secret, err := o.manifest(c, text)
	if err != nil {
		return err
	}
	// Stored again at every start: blobs that are there cost little, and missing ones would keep every newcomer out.
	if want.Data.Blobs, err = node.StoreData(ctx, r.folder.blobs, text); err != nil {
		return err
	}
	if r.manifest, err = o.takeUp(r.folder.journal, want, secret); err != nil {
		return err
	}
	r.log = r.log.With("run", r.manifest.GetRun())
	if len(r.manifest.GetData().GetBlobs()) == 0 {
		return fmt.Errorf("%s holds a run of iota up, whose text others cannot get: start another one in another --dir", o.dir)
	}
	if r.key, err = loadKey(filepath.Join(o.dir, keyName), freshKey); err != nil {
		return err
	}
	r.hub, err = node.OpenHub(node.HubConfig{
		Journal: r.folder.journal, Blobs: r.folder.blobs, Ledger: filepath.Join(o.dir, ledgerName), Log: r.log,
	})
	return err
}

// serve lets miners join and runs the core until the run is finished or ctx ends, which leaves it to be taken up.
func (r *hosted) serve(ctx context.Context, o *orchestratorOptions, admit func(ed25519.PublicKey) error, stdout io.Writer) error {
	page, err := servePage(o.listen, r.hub)
	if err != nil {
		return err
	}
	defer page.close()
	l, err := net.Listen("tcp", o.serve)
	if err != nil {
		return fmt.Errorf("%w: choose another address with --serve", err)
	}
	config := remote.ServerConfig{
		Key: r.key, Manifest: message.Encode(r.manifest), Status: r.status, Blobs: r.folder.blobs, Admit: admit, Log: r.log,
	}
	config.Bucket, _ = r.folder.blobs.(remote.Bucket)
	server, err := remote.NewServer(config)
	if err != nil {
		l.Close()
		return err
	}
	address := o.address(r.key, l)
	stages := len(r.manifest.GetModel().GetCuts())
	if err := r.folder.describe(runFile{r.manifest.GetRun(), o.preset, nil, o.miners, stages, address.String()}); err != nil {
		l.Close()
		return err
	}
	fmt.Fprintln(stdout, address)
	var tasks sync.WaitGroup
	watching, stop := context.WithCancel(context.Background())
	tasks.Go(func() { _ = server.Serve(l) }) // ends with Close
	tasks.Go(func() { logRun(watching, r.hub, r.log) })
	err = r.hub.Serve(ctx, server)
	stop()
	server.Close()
	tasks.Wait()
	if err != nil && ctx.Err() != nil {
		r.log.Info("stopped: the same command takes the run up again", "epoch", r.hub.View().Epoch)
		return r.hub.Suspend()
	}
	if err != nil {
		return explain(err)
	}
	for _, line := range newReport(r.hub.View(), r.hub.Chain(), r.hub.Checkpoints()).words() {
		fmt.Fprintln(stdout, line)
	}
	return nil
}

// address is what participants join. A listener on every address is reached by the machine's name.
func (o *orchestratorOptions) address(key ed25519.PrivateKey, l net.Listener) remote.Address {
	a := remote.Address{Key: key.Public().(ed25519.PublicKey), Host: o.public}
	if a.Host != "" {
		return a
	}
	bound := l.Addr().(*net.TCPAddr)
	host := bound.IP.String()
	if bound.IP.IsUnspecified() {
		host = "localhost"
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	a.Host = net.JoinHostPort(host, fmt.Sprint(bound.Port))
	return a
}

// admission is the list of --admit as a rule; without a list everybody may join.
func admission(keys []string) (func(ed25519.PublicKey) error, error) {
	var list []string
	for _, k := range keys {
		b, err := hex.DecodeString(k)
		if err != nil || len(b) != ed25519.PublicKeySize {
			return nil, usagef("--admit %q: a public key is 64 hex digits, as iota keygen prints it", k)
		}
		list = append(list, string(b))
	}
	if len(list) == 0 {
		return nil, nil
	}
	return func(key ed25519.PublicKey) error {
		if slices.Contains(list, string(key)) {
			return nil
		}
		return errors.New("the orchestrator admits listed keys only, and this one is not listed: ask its operator")
	}, nil
}
