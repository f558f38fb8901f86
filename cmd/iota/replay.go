package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
	"github.com/iota-train/iota/role/miner"
)

func replayCommand() *cobra.Command {
	var o replayOptions
	c := &cobra.Command{
		Use: "replay", Short: "Replay the work of a run's miners from its journal and blobs, and compare", Args: noArgs,
		Long: "Does the work again that the journal has signed receipts of, as far as the blobs that it read are still there,\n" +
			"and compares every output, loss and state commitment. It trusts nobody, the orchestrator included.\n\n" +
			"A run keeps the blobs of its last epochs, and for good those of failed audits; miners store the states that a log is\n" +
			"replayed from only where an audit was drawn. So most of a long run cannot be replayed any more, which is no fault.\n" +
			"The exit code is 1 if anything that was replayed does not hold.",
		Example: "  iota replay --dir run\n  iota replay --dir run --miner 3 --epoch 7",
		RunE: func(c *cobra.Command, _ []string) error {
			o.all = !c.Flags().Changed("epoch")
			return o.replay(c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&o.dir, "dir", "", "folder of the run")
	f.StringVar(&o.miner, "miner", "", "only this miner: its number, or the beginning of its id")
	f.Uint64Var(&o.epoch, "epoch", 0, "only this epoch")
	f.StringArrayVar(&o.data, "data", nil, "text that the run trains on; repeatable (default: the text that is built in)")
	f.BoolVar(&o.json, "json", false, "print JSON, one object per miner and epoch")
	return c
}

type replayOptions struct {
	dir, miner string
	epoch      uint64
	all        bool // epochs
	data       []string
	json       bool
}

// replay prints one line per miner and epoch. It returns an error if something does not hold.
func (o *replayOptions) replay(w io.Writer) error {
	if o.dir == "" {
		return usagef("name the run's folder with --dir")
	}
	j, err := openJournal(o.dir)
	if err != nil {
		return err
	}
	defer j.Close()
	a, err := o.auditor(j)
	if err != nil {
		return err
	}
	defer a.engine.Close()
	logs, err := node.Logs(j)
	if err != nil {
		return explain(err)
	}
	bad, printed := 0, 0
	for _, log := range logs {
		if !o.concerns(log) {
			continue // a miner's earlier logs lead to its later ones; nothing else does
		}
		line := a.replay(log)
		if !o.wants(log) {
			continue
		}
		printed++
		if line.Mismatch != "" {
			bad++
		}
		if err := line.print(w, o.json); err != nil {
			return err
		}
	}
	switch {
	case printed == 0:
		return errors.New("the journal has no such log: leave out --miner and --epoch to see all")
	case bad > 0:
		return fmt.Errorf("%d of %d logs do not hold", bad, printed)
	}
	return nil
}

// concerns reports whether what is asked for follows from a log.
func (o *replayOptions) concerns(log *node.Log) bool {
	id := message.Short(log.Key)
	return (o.all || log.Epoch <= o.epoch) &&
		(o.miner == "" || o.miner == strconv.Itoa(log.Number) || len(o.miner) > 3 && strings.HasPrefix(id, o.miner))
}

func (o *replayOptions) wants(log *node.Log) bool {
	return o.concerns(log) && (o.all || log.Epoch == o.epoch)
}

// auditor opens what a replay needs.
func (o *replayOptions) auditor(j *journal.File) (*auditor, error) {
	m, _, err := node.Genesis(j)
	if err != nil {
		return nil, explain(err)
	}
	if m == nil {
		return nil, fmt.Errorf("%s holds no run yet", o.dir)
	}
	numerics, err := kernel.ParseNumerics(m.GetNumerics())
	if err != nil {
		return nil, fmt.Errorf("%w: use the release that made the run", err)
	}
	tokenizer, err := data.NewTokenizer(m.GetData().GetTokenizer())
	if err != nil {
		return nil, err
	}
	shape := options{data: o.data}
	text, err := shape.text(manifest.Shape(m), tokenizer)
	if err != nil {
		return nil, err
	}
	if hash := text.Hash(); string(hash[:]) != string(m.GetData().GetHash()) {
		return nil, usagef("the run trains on another text: name it with --data, as when it was started")
	}
	blobs, err := store.OpenDir(filepath.Join(o.dir, "blobs"))
	if err != nil {
		return nil, err
	}
	return &auditor{m, text, kernel.NewFor(numerics, cores), blobs, map[int][]byte{}}, nil
}

// auditor replays logs in the order of their beginnings.
type auditor struct {
	manifest *message.Manifest
	text     *data.Dataset
	engine   *kernel.Engine
	blobs    *store.Dir
	saved    map[int][]byte // private state of each miner after its last install, where a replay led there
}

// replayLine is what came of one log.
type replayLine struct {
	Miner    int    `json:"miner"`
	ID       string `json:"id"`
	Epoch    uint64 `json:"epoch"`
	Receipts int    `json:"receipts"`
	Replayed int    `json:"replayed"`
	Missing  int    `json:"missing_blobs"`
	Note     string `json:"note,omitempty"`
	Mismatch string `json:"mismatch,omitempty"`
}

func (l replayLine) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(l)
	}
	verdict := "what was replayed holds"
	switch {
	case l.Mismatch != "":
		verdict = "does not hold: " + l.Mismatch
	case l.Replayed == 0:
		verdict = "nothing could be replayed"
	}
	if l.Note != "" {
		verdict += "; " + l.Note
	}
	blobs := "blobs"
	if l.Missing == 1 {
		blobs = "blob"
	}
	_, err := fmt.Fprintf(w, "miner %d (%s), epoch %d: %d of %d receipts replayed, %d %s missing; %s\n", l.Miner, l.ID, l.Epoch,
		l.Replayed, l.Receipts, l.Missing, blobs, verdict)
	return err
}

// replay does a log again as far as it can: as a whole where its blobs and its start are there, else in segments whose
// states were stored for an audit, and its reductions one by one.
func (a *auditor) replay(log *node.Log) replayLine {
	l := replayLine{Miner: log.Number, ID: message.Short(log.Key), Epoch: log.Epoch, Receipts: len(log.Receipts), Missing: a.missing(log)}
	if log.Unsigned > 0 {
		l.Mismatch = fmt.Sprintf("%d receipts are not signed by the miner", log.Unsigned)
		return l
	}
	private, known := a.start(log)
	carried := a.saved[log.Number]
	delete(a.saved, log.Number)
	if known && l.Missing == 0 {
		got, err := miner.Replay(a.manifest, a.text, a.engine, log.Receipts, a.blob, private)
		if err != nil {
			l.Note = err.Error()
			return l
		}
		l.Replayed, l.Mismatch = got.Checked, got.Problem
		if log.Ended {
			a.saved[log.Number] = got.Saved
		}
		return l
	}
	if !log.Ended {
		a.saved[log.Number] = carried
	}
	if !known {
		l.Note = "the state that it begins with is not known"
	}
	a.pieces(log, private, known, &l)
	return l
}

// start finds the private state that a log begins with: the one that its miner stored for an audit, that which the log
// before led to, or that of a new miner. The right one is known by the commitment of the first receipt.
func (a *auditor) start(log *node.Log) ([]byte, bool) {
	candidates := [][]byte{a.saved[log.Number], nil}
	if ref := log.States[0]; ref != nil {
		if b, err := a.blob(ref.GetHash()); err == nil {
			candidates = append([][]byte{b}, candidates...)
		}
	}
	for _, private := range candidates {
		got, err := miner.Replay(a.manifest, a.text, a.engine, log.Receipts[:1], a.blob, private)
		if err == nil && got.Problem == "" {
			return private, true
		}
	}
	return nil, false
}

// pieces replays what can be replayed without the whole log.
func (a *auditor) pieces(log *node.Log, private []byte, known bool, l *replayLine) {
	check := func(receipts []*message.Receipt, s message.Segment, from miner.Log, places []int) {
		from.Blobs = a.blob
		for _, r := range receipts {
			from.Receipts = append(from.Receipts, r.Ordered())
		}
		got, err := from.Again(a.manifest, a.text, a.engine)
		if err != nil || l.Mismatch != "" {
			return // a blob is missing
		}
		for i, r := range receipts {
			what := got.Problem
			if i < len(got.Receipts) {
				what = message.Differs(got.Receipts[i], s.Want(i, r))
			}
			if what != "" {
				l.Mismatch = fmt.Sprintf("%s: %s", r.GetTask().Key(), what)
				return
			}
		}
		l.Replayed += len(places)
	}
	for _, s := range message.Segments(log.Receipts, uint64(a.manifest.GetRules().GetInnerSteps())) {
		from := miner.Log{Private: private}
		if outputs := log.Receipts[0].GetOutputs(); len(outputs) == 1 {
			from.Checkpoint = outputs[0].GetHash()
		}
		if ref := log.States[s.Step]; s.Resume > 0 && ref != nil {
			from.Resume, _ = a.blob(ref.GetHash())
		}
		if !known || s.Resume > 0 && from.Resume == nil {
			continue
		}
		var receipts []*message.Receipt
		for _, i := range s.Receipts {
			receipts = append(receipts, log.Receipts[i])
		}
		check(receipts, s, from, s.Receipts[s.Own:])
	}
	none := l.Replayed == 0
	for i, r := range log.Receipts {
		if none && r.GetTask().GetKind() == message.TaskKind_REDUCE {
			check([]*message.Receipt{r}, message.Segment{}, miner.Log{}, []int{i})
		}
	}
}

// missing counts the blobs that a log reads and that are gone.
func (a *auditor) missing(log *node.Log) int {
	n := 0
	for i, r := range log.Receipts {
		inputs := r.BlobHashes()
		if i == 0 && r.GetTask().GetKind() == message.TaskKind_INSTALL {
			inputs = nil
			if len(r.GetOutputs()) == 1 {
				inputs = [][]byte{r.GetOutputs()[0].GetHash()}
			}
		}
		for _, hash := range inputs {
			if len(hash) == 0 {
				continue
			}
			if ok, err := a.blobs.Has(context.Background(), store.Hash(hash)); err != nil || !ok {
				n++
			}
		}
	}
	return n
}

// blob finds the bytes of a hash.
func (a *auditor) blob(hash []byte) ([]byte, error) {
	var h store.Hash
	if len(hash) != len(h) {
		return nil, fmt.Errorf("a hash of %d bytes", len(hash))
	}
	copy(h[:], hash)
	size, err := a.blobs.Size(context.Background(), h)
	if err != nil {
		return nil, err
	}
	return a.blobs.Get(context.Background(), h, size)
}
