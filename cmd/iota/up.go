package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/aggregate"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/orchestrator"
	"github.com/iota-train/iota/sim/adversary"
)

func upCommand() *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use: "up", Short: "A whole network in one process: trains at once", Args: noArgs,
		Long: "Starts an orchestrator, its miners and, with --validators, validators in this process, and trains one model across them.\n" +
			"Without --epochs or --for it runs until ctrl-C, which finishes cleanly. With --dir the same command resumes the run;\n" +
			"--epochs and --for are part of it.\n\nKinds of --adversary (lazy and lying concern replays, so they are a validator's):\n" +
			strings.Join(adversary.Kinds()[:9], ", ") + ",\n" + strings.Join(adversary.Kinds()[9:], ", "),
		Example: "  iota up\n  iota up --for 60s --listen off --report r.json\n  iota up --dir run --data book.txt --miners 8 --stages 2\n" +
			"  iota up --validators 1 --adversary free-rider@2",
		RunE: func(c *cobra.Command, _ []string) error {
			o.seeded = c.Flags().Changed("seed")
			if err := o.replayed(c.Flags()); err != nil {
				return err
			}
			return o.up(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	o.trainingFlags(f)
	f.Uint64Var(&o.seed, "seed", 0, "derives the data seed, the keys and the secret (default: random)")
	f.StringVar(&o.dir, "dir", "", "keep the run in this folder, and resume it from there (default: in memory)")
	f.StringVar(&o.listen, "listen", defaultListen, "address of the read-only status page, or off")
	f.StringVar(&o.link, "link", "", "RATE,DELAY of every miner's link, as in 80mbit,50ms (default: unlimited)")
	f.StringVar(&o.report, "report", "", "write a report in JSON to this file")
	f.StringArrayVar(&o.adversaries, "adversary", nil, "KIND[:RATE]@MINER: let a miner misbehave, or with @vN validator N, as in free-rider@2 or lazy@v1; repeatable")
	return c
}

// trainingFlags are the flags that say what to train and how: those of every command that starts a run.
func (o *options) trainingFlags(f *pflag.FlagSet) {
	f.StringVar(&o.preset, "preset", "tiny", "model: nano, tiny, small, 1.5b or 15b")
	f.StringVar(&o.tokenizer, "tokenizer", data.Bytes, "bytes or r50k_base")
	f.StringVar(&o.precision, "precision", "f32", "operands of matrix products: f32 or bf16; sums and weights are f32")
	f.IntVar(&o.stages, "stages", 0, "stages that the model is cut into (default: the preset's)")
	f.IntVar(&o.miners, "miners", 0, "miners (default: two per stage)")
	f.IntVar(&o.validators, "validators", 0, "validators, which replay a share of the miners' work")
	f.Float64Var(&o.auditShare, "audit-share", 0.1, "replayed work over all work, 0 to 1; needs validators")
	f.Float64Var(&o.shardShare, "shard-share", 1, "share of the merged shards that validators reduce again; needs validators")
	f.Uint32Var(&o.epochs, "epochs", 0, "end after so many epochs")
	f.DurationVar(&o.length, "for", 0, "end after the epoch in which so much time has passed, as in 60s")
	f.StringArrayVar(&o.data, "data", nil, "text file or folder to train on; repeatable (default: the text that is built in)")
	f.StringVar(&o.boundary, "boundary", "", "none, bottleneck or ssn (default: the preset's)")
	f.IntVar(&o.width, "width", 0, "channels that cross a boundary (default: the preset's)")
	f.StringVar(&o.wire, "wire", "", "number format of the boundaries: f32, bf16 or int8 (default: the preset's)")
	f.StringVar(&o.share, "share", "f32", "number format of the merges: f32, bf16 or int8")
	f.StringVar(&o.aggregate, "aggregate", "mean", "how shares are merged: "+strings.Join(aggregate.Names(), ", "))
}

// replayed refuses a share of what to replay where nobody replays.
func (o *options) replayed(f *pflag.FlagSet) error {
	for _, name := range []string{"audit-share", "shard-share"} {
		if f.Changed(name) && o.validators == 0 {
			return usagef("--%s needs somebody who replays: add --validators 1", name)
		}
	}
	return nil
}

// up is the command behind its flags.
func (o *options) up(ctx context.Context, stdout, stderr io.Writer) error {
	c, tokenizer, err := o.shape()
	if err != nil {
		return err
	}
	if err := o.check(c); err != nil {
		return err
	}
	liars, err := o.misbehaviours()
	if err != nil {
		return err
	}
	if err := checkReport(o.report); err != nil {
		return err
	}
	if err := kernel.Check(); err != nil {
		return fmt.Errorf("this machine does not compute what runs define: %w", err)
	}
	text, err := o.text(c, tokenizer)
	if err != nil {
		return err
	}
	screen := newScreen(stdout, stderr)
	n := &network{text: text, liars: liars, log: slog.New(slog.NewTextHandler(screen, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	n.link, _ = o.links()
	closeRun, err := o.prepare(n, c)
	if err != nil {
		return explain(err)
	}
	defer closeRun()
	page, err := servePage(o.listen, n.hub)
	if err != nil {
		return err
	}
	defer page.close()
	return o.train(ctx, n, screen)
}

// prepare opens the run: in memory, or in a folder, where it may go on.
func (o *options) prepare(n *network, c model.Config) (func(), error) {
	want, secret, err := o.manifest(c, n.text)
	if err != nil {
		return nil, err
	}
	if o.dir == "" {
		const capacity = 16 << 30 // bytes
		n.manifest, n.journal, n.blobs = want, journal.NewMemory(), store.NewMemory(capacity)
		for i := range o.miners {
			n.keys = append(n.keys, o.newKey(i))
		}
		for i := range o.validators {
			n.validators = append(n.validators, o.newValidatorKey(i))
		}
		if err := node.Begin(n.journal, want, secret); err != nil {
			return nil, err
		}
		return func() {}, n.open()
	}
	f, err := openFolder(o.dir)
	if err != nil {
		return nil, err
	}
	n.manifest, err = o.takeUp(f.journal, want, secret)
	if err == nil {
		err = o.prepareFolder(n, f)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f.close, nil
}

// takeUp returns the manifest of a journal's run, which must be the wanted one. A journal without a run begins it.
func (o *options) takeUp(j node.Journal, want *message.Manifest, secret [32]byte) (*message.Manifest, error) {
	have, _, err := node.Genesis(j)
	if err != nil {
		return nil, err
	}
	if have == nil {
		return want, node.Begin(j, want, secret)
	}
	return have, o.sameRun(have, want)
}

// prepareFolder opens the hub and the keys of a folder's run.
func (o *options) prepareFolder(n *network, f *folder) (err error) {
	n.journal, n.blobs, n.folder, n.ledger = f.journal, f.blobs, f.miner, filepath.Join(f.path, ledgerName)
	if n.keys, err = f.keys(f.miner, o.miners, o.newKey); err != nil {
		return err
	}
	if n.validators, err = f.keys(f.validator, o.validators, o.newValidatorKey); err != nil {
		return err
	}
	if err := n.open(); err != nil {
		return err
	}
	r := runFile{Run: n.manifest.GetRun(), Preset: o.preset, Miners: o.miners, Stages: len(n.manifest.GetModel().GetCuts())}
	if o.seeded {
		r.Seed = &o.seed
	}
	return f.describe(r)
}

// train runs the network beside its display, and reports.
func (o *options) train(ctx context.Context, n *network, screen *screen) error {
	if v := n.hub.View(); v.Finished && complete(n.manifest.GetRules(), v) {
		screen.line("This run is finished already: start a new one in another --dir.")
		return o.finish(n, screen)
	}
	screen.memory(n.memory())
	watching, stop := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() { screen.watch(watching, n) })
	err := n.run(context.WithoutCancel(ctx), ctx.Done())
	stop()
	watch.Wait()
	if err != nil {
		return explain(err)
	}
	return o.finish(n, screen)
}

// complete reports whether a run has its full length; one that was only stopped goes on.
func complete(r *message.Rules, v orchestrator.View) bool {
	epochs, length := uint64(r.GetEpochs()), time.Duration(r.GetRunTime())
	return (epochs > 0 && v.Epoch >= epochs) || (length > 0 && v.Now >= length)
}

// finish prints the summary and writes the report.
func (o *options) finish(n *network, screen *screen) error {
	r := o.makeReport(n)
	screen.summary(r)
	if o.report == "" {
		return nil
	}
	return r.write(o.report)
}
