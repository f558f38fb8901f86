package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/remote"
	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/role/orchestrator"
)

// status is what an orchestrator answers to whoever asks how its run is.
type status struct {
	Report *report           `json:"report"`
	View   orchestrator.View `json:"view"`

	resting bool // nobody runs it: this is how it was left
}

// status is the answer of this process.
func (r *hosted) status() ([]byte, error) {
	v := r.hub.View()
	s := status{Report: newReport(v, r.hub.Chain(), r.hub.Checkpoints()), View: v}
	s.Report.Seed = r.manifest.GetData().GetSeed()
	s.Report.MemoryPerMiner = memoryOf(r.manifest, cores, 1)
	return json.Marshal(s)
}

func statusCommand() *cobra.Command {
	var join, dir string
	var asJSON, watch bool
	c := &cobra.Command{
		Use: "status", Short: "Show how a run is", Args: noArgs,
		Long: "Asks a run's orchestrator how the run is: its phase and what it waits for, the loss, and every participant.\n" +
			"With --dir it asks the orchestrator of that folder, and reads the folder where none is running.",
		Example: "  iota status --join KEY@HOST:4040\n  iota status --dir run --watch\n  iota status --dir run --json",
		RunE: func(c *cobra.Command, _ []string) error {
			if (join == "") == (dir == "") {
				return usagef("name the run with --join KEY@HOST:PORT or with --dir")
			}
			ask := func(ctx context.Context) (*status, error) { return askFolder(ctx, dir) }
			if join != "" {
				address, err := remote.ParseAddress(join)
				if err != nil {
					return usagef("--join: %w", err)
				}
				ask = func(ctx context.Context) (*status, error) { return askRun(ctx, address) }
			}
			return showStatus(c.Context(), c.OutOrStdout(), ask, asJSON, watch)
		},
	}
	f := c.Flags()
	f.StringVar(&join, "join", "", "the run: KEY@HOST:PORT, the first line that its orchestrator prints")
	f.StringVar(&dir, "dir", "", "folder of the run")
	f.BoolVar(&asJSON, "json", false, "print the report in JSON, that of iota up --report")
	f.BoolVar(&watch, "watch", false, "print it again every two seconds, until ctrl-C")
	return c
}

// showStatus prints the answer once, or again and again.
func showStatus(ctx context.Context, w io.Writer, ask func(context.Context) (*status, error), asJSON, watch bool) error {
	for {
		asking, cancel := context.WithTimeout(ctx, 10*time.Second)
		s, err := ask(asking)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case asJSON:
			err = json.NewEncoder(w).Encode(s.Report)
		default:
			if watch && onTerminal(w) {
				fmt.Fprint(w, "\x1b[H\x1b[2J")
			}
			err = s.print(w)
		}
		if err != nil || !watch {
			return err
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return nil
		}
	}
}

// askRun asks an orchestrator. Anybody may: the key that asks is a fresh one.
func askRun(ctx context.Context, a remote.Address) (*status, error) {
	client, err := remote.Dial(a, freshKey())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	b, err := client.Status(ctx)
	if err != nil {
		return nil, err
	}
	var s status
	if err := json.Unmarshal(b, &s); err != nil || s.Report == nil {
		return nil, fmt.Errorf("the orchestrator's answer makes no sense here: use the release that it has")
	}
	return &s, nil
}

// askFolder asks the orchestrator of a folder, or reads the folder's journal where none is running.
func askFolder(ctx context.Context, dir string) (*status, error) {
	file := filepath.Join(dir, runName)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no run: name the --dir of an iota orchestrator or iota up", dir)
	}
	if err != nil {
		return nil, err
	}
	var r runFile
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: %w: start the run again, which writes it anew", file, err)
	}
	if address, err := remote.ParseAddress(r.Join); err == nil {
		s, err := askRun(ctx, address)
		if err == nil || errors.Is(err, transport.ErrDenied) {
			return s, err
		}
		if _, e := os.Stat(filepath.Join(dir, journalName)); errors.Is(e, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: start the orchestrator; the journal is not in %s, so that nobody else can say how the run is", err, dir)
		}
	}
	f, err := openFolder(dir)
	if err != nil {
		return nil, explain(err)
	}
	defer f.close()
	m, _, err := node.Genesis(f.journal)
	if err != nil || m == nil {
		return nil, explain(errors.Join(err, fmt.Errorf("%s holds no run yet", dir)))
	}
	hub, err := node.OpenHub(node.HubConfig{Journal: f.journal, Blobs: f.blobs})
	if err != nil {
		return nil, explain(err)
	}
	v := hub.View()
	s := &status{Report: newReport(v, hub.Chain(), hub.Checkpoints()), View: v, resting: true}
	s.Report.Seed = m.GetData().GetSeed()
	return s, nil
}

// print is the answer for people.
func (s *status) print(w io.Writer) error {
	if s.resting {
		fmt.Fprintln(w, "No orchestrator of this run answers. It was left like this:")
	}
	for _, line := range block(s.View, rate{}, 120) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "miner\tstage\tstate\tbackwards\tper second\tscore\tpaid\tescrow\tverdicts\t")
	for _, m := range s.View.Miners {
		fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%.2f\t%.2f\t%s\t%s\t%d/%d\t\n", m.ID, m.Stage, m.State, m.Backwards, m.Speed, m.Pay.Score,
			pay(m.Pay.Earned), pay(m.Pay.Escrow), m.Passed, m.Passed+m.Failed)
	}
	for _, v := range s.View.Validators {
		fmt.Fprintf(t, "%s\t\t%s\t\t\t%.2f\t%s\t%s\t%d/%d\t\n", v.ID, v.State, v.Pay.Score, pay(v.Pay.Earned), pay(v.Pay.Escrow),
			v.Replays-v.Mismatches, v.Replays)
	}
	return t.Flush()
}
