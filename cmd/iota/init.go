package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
)

//go:embed run.yaml
var runYAML []byte

func initCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init [FILE]", Short: "Write a run.yaml with every setting and its meaning", Args: atMostOneArg,
		Long:    "Writes the settings of a run with their defaults to FILE (default: run.yaml), which must not exist.",
		Example: "  iota init && iota orchestrator --config run.yaml --dir run",
		RunE: func(c *cobra.Command, args []string) error {
			path := "run.yaml"
			if len(args) > 0 {
				path = args[0]
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s is there already: edit it, or name another file", path)
			}
			if err != nil {
				return err
			}
			_, err = f.Write(runYAML)
			if e := f.Close(); err == nil {
				err = e
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "wrote %s: look it over, and start the run with iota orchestrator --config %s --dir run\n", path, path)
			return nil
		},
	}
}
