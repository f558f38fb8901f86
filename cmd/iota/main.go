// Iota pretrains one language model on many machines that do not trust each other and may come and go.
//
// This package is the binary: one file per subcommand, and the wiring of the layers below. It holds no rule of the
// protocol and no arithmetic.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/learn/kernel"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// cores is how many processors compute may use.
var cores = runtime.GOMAXPROCS(0)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a mistake in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run is the whole binary but for the process: it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "iota: "+strings.ReplaceAll(err.Error(), "\n", " "))
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "iota",
		Short: "Pretrain one language model on many machines",
		Long:  "iota pretrains one language model on many machines that do not trust each other and may come and go.",
		Example: "  iota up                 a whole network in one process, training at once\n  iota up --for 60s --dir run --validators 1\n" +
			"  iota ledger show --dir run",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q: see iota --help", args[0])
			}
			return c.Help()
		},
	}
	root.SetVersionTemplate("iota {{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w: see %s --help", err, c.CommandPath())
	})
	root.AddCommand(upCommand(), initCommand(), orchestratorCommand(), minerCommand(), validatorCommand(), statusCommand(), keygenCommand(), simCommand(), journalCommand(), ledgerCommand(), replayCommand(), benchCommand(), versionCommand())
	return root
}

// noArgs refuses arguments where a command takes none.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unknown argument %q: see %s --help", args[0], c.CommandPath())
	}
	return nil
}

// needSubcommand is what a command does that only groups others.
func needSubcommand(c *cobra.Command, args []string) error {
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	if len(args) == 0 {
		return usagef("%s needs one of: %s", c.CommandPath(), strings.Join(names, ", "))
	}
	return usagef("unknown argument %q: %s knows %s", args[0], c.CommandPath(), strings.Join(names, ", "))
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version, the numerics that it computes and the kernels' variant", Args: noArgs,
		Example: "  iota version",
		Run: func(c *cobra.Command, _ []string) {
			fmt.Fprintf(c.OutOrStdout(), "iota %s, numerics %s and %s (%s)\n", version(), kernel.F32, kernel.BF16, kernel.Variant())
		},
	}
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return info.Main.Version
}
