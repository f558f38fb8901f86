package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/edge/node"
)

func journalCommand() *cobra.Command {
	c := &cobra.Command{Use: "journal", Short: "Look after a run's journal", RunE: needSubcommand, Args: cobra.ArbitraryArgs,
		Example: "  iota journal verify --dir run"}
	c.AddCommand(verifyCommand())
	return c
}

func verifyCommand() *cobra.Command {
	var dir string
	var asJSON bool
	c := &cobra.Command{
		Use: "verify", Short: "Replay the events of a run and compare every chain link and snapshot", Args: noArgs,
		Example: "  iota journal verify --dir run",
		RunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				return usagef("name the run's folder with --dir")
			}
			v, err := verifyFolder(dir)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(map[string]any{
					"run": v.Run, "events": v.Events, "epochs": v.Epochs, "snapshots": v.Snapshots, "chain_hash": hex.EncodeToString(v.Chain[:]),
				})
			}
			fmt.Fprintf(c.OutOrStdout(), "run %s holds: %d events, %d epochs, %d snapshots, chain %x\n", v.Run, v.Events, v.Epochs, v.Snapshots, v.Chain)
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "folder of the run")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func verifyFolder(dir string) (node.Verified, error) {
	j, err := openJournal(dir)
	if err != nil {
		return node.Verified{}, err
	}
	defer j.Close()
	v, err := node.Verify(j)
	if err != nil {
		return v, explain(fmt.Errorf("verify %s: %w", dir, err))
	}
	return v, nil
}
