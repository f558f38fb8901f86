package main

import (
	"github.com/spf13/cobra"
)

func benchCommand() *cobra.Command {
	c := &cobra.Command{Use: "bench", Short: "Measure, each result beside a baseline of the same run", RunE: needSubcommand, Args: cobra.ArbitraryArgs,
		Example: "  iota bench stage --json\n  iota bench pipeline --json"}
	return c
}
