package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/protocol/message"
)

func ledgerCommand() *cobra.Command {
	c := &cobra.Command{Use: "ledger", Short: "Look at who earned what in a run", RunE: needSubcommand, Args: cobra.ArbitraryArgs,
		Example: "  iota ledger show --dir run\n  iota ledger verify --dir run"}
	c.AddCommand(ledgerOf("show", "Print what everybody has, and the totals",
		"Reads a run's ledger, checks it, and prints a line per miner and validator. The run may be going on.", showLedger),
		ledgerOf("verify", "Check the chain, the signatures and the sums of a run's ledger",
			"Checks every line of a run's ledger, and that it ends where the run's journal does, if that is in the folder and the\nrun is not going on. "+
				"It names the first entry that does not hold.", verifyLedger))
	return c
}

// ledgerOf is a command that reads the ledger of --dir.
func ledgerOf(use, short, long string, do func(w io.Writer, dir string, r *ledger.Reader, asJSON bool) error) *cobra.Command {
	var dir string
	var asJSON bool
	c := &cobra.Command{
		Use: use, Short: short, Long: long, Args: noArgs, Example: "  iota ledger " + use + " --dir run",
		RunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				return usagef("name the run's folder with --dir")
			}
			r, err := readLedger(dir)
			if err != nil {
				return err
			}
			return do(c.OutOrStdout(), dir, r, asJSON)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "folder of the run")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON; amounts are micro-units, a millionth of a unit of pay")
	return c
}

// readLedger checks the ledger of a folder by itself and returns its books.
func readLedger(dir string) (*ledger.Reader, error) {
	f, err := os.Open(filepath.Join(dir, ledgerName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no ledger: name the --dir of an iota up or iota orchestrator", dir)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := node.ReadLedger(f)
	if err != nil {
		return nil, badLedger(dir, err)
	}
	return r, nil
}

func badLedger(dir string, err error) error {
	return fmt.Errorf("%s: %w: do not trust it; the next start of the run writes it again from the journal",
		filepath.Join(dir, ledgerName), err)
}

// verifyLedger compares a ledger that holds by itself with the journal of its run.
func verifyLedger(w io.Writer, dir string, r *ledger.Reader, asJSON bool) error {
	apart := "" // why the journal is not compared
	j, err := openJournal(dir)
	switch {
	case errors.Is(err, journal.ErrInUse):
		apart = "the run is going on and has its journal"
	case errors.Is(err, errNoJournal):
		apart = "the folder does not have the journal"
	case err != nil:
		return err
	default:
		defer j.Close()
		if err := node.CompareLedger(j, r); errors.Is(err, journal.ErrDamaged) {
			return badLedger(dir, err)
		} else if err != nil {
			return explain(err)
		}
	}
	if asJSON {
		return json.NewEncoder(w).Encode(map[string]any{
			"entries": r.Entries, "pages": r.Closings, "root": hex.EncodeToString(r.Root), "key": hex.EncodeToString(r.Key),
			"issued": r.Issued, "burned": r.Burned, "paid": r.Paid, "escrow": r.Escrow, "compared": apart == "",
		})
	}
	fmt.Fprintf(w, "the ledger holds: %d entries in %d pages, issued %s = paid %s + escrow %s + burned %s, root %x, signed by %s\n",
		r.Entries, r.Closings, pay(r.Issued), pay(r.Paid), pay(r.Escrow), pay(r.Burned), r.Root, message.Short(r.Key))
	if apart != "" {
		fmt.Fprintf(w, "%s: the ledger was not compared with it\n", apart)
	}
	return nil
}

// pay writes an amount for people, exactly.
func pay(micro uint64) string { return fmt.Sprintf("%d.%06d", micro/ledger.Unit, micro%ledger.Unit) }

// holderJSON is a line of show --json. Amounts are micro-units, the score micro-batches of the whole model.
type holderJSON struct {
	Key       string  `json:"key"`
	Role      string  `json:"role"`
	Score     float64 `json:"score"`
	Earned    uint64  `json:"earned"`
	Escrow    uint64  `json:"escrow"`
	Slashed   uint64  `json:"slashed"`
	Unproven  uint64  `json:"unproven"` // burned, because no replay could or did show that the work was done
	Probation uint64  `json:"probation"`
	Failed    bool    `json:"failed"`
}

// showLedger prints the books.
func showLedger(w io.Writer, _ string, r *ledger.Reader, asJSON bool) error {
	list := []holderJSON{}
	for _, h := range r.Holders {
		role := "miner"
		if h.Validator {
			role = "validator"
		}
		list = append(list, holderJSON{hex.EncodeToString(h.Key), role, float64(h.Score) / ledger.Whole, h.Paid, h.Escrow, h.Slashed, h.Unproven, h.Probation, h.Failed})
	}
	if asJSON {
		return json.NewEncoder(w).Encode(map[string]any{
			"holders": list, "entries": r.Entries, "pages": r.Closings, "epoch": r.Epoch, "root": hex.EncodeToString(r.Root),
			"issued": r.Issued, "burned": r.Burned, "paid": r.Paid, "escrow": r.Escrow,
		})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "key\trole\tscore\tpaid\tescrow\tslashed\tunproven\tprobation\t")
	for i, h := range r.Holders {
		fmt.Fprintf(t, "%s\t%s\t%.3f\t%s\t%s\t%s\t%s\t%s\t\n", message.Short(h.Key), list[i].Role, list[i].Score, pay(h.Paid), pay(h.Escrow),
			pay(h.Slashed), pay(h.Unproven), pay(h.Probation))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "issued %s = paid %s + escrow %s + burned %s, in %d entries and %d pages\n", pay(r.Issued), pay(r.Paid),
		pay(r.Escrow), pay(r.Burned), r.Entries, r.Closings)
	return err
}
