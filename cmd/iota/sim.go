package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/sim"
)

func simCommand() *cobra.Command {
	var rewrite bool
	var reportPath string
	var seed uint64
	c := &cobra.Command{
		Use:   "sim SCENARIO.txt...",
		Short: "Play scenarios in virtual time",
		Long: "iota sim plays scenarios: the orchestrator and the miners of a real run, in virtual time, with the faults that the\n" +
			"scenario commands. It prints the transcript, and fails if a law of the design is broken or if the transcript is\n" +
			"another one than the file holds. sim/testdata has examples.",
		Example: "  iota sim sim/testdata/clean.txt\n  iota sim --rewrite my.txt      write the output into the scenario\n  iota sim --seed 7 my.txt       the same with other dice: nothing is compared",
		RunE: func(c *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				return usagef("name a scenario, as in iota sim sim/testdata/clean.txt")
			}
			if rewrite && c.Flags().Changed("seed") {
				return usagef("--rewrite and --seed exclude each other: a transcript belongs to the seeds it names")
			}
			if err := checkReport(reportPath); err != nil {
				return err
			}
			p := player{rewrite: rewrite, report: reportPath}
			if c.Flags().Changed("seed") {
				p.seed = &seed
			}
			for _, path := range paths {
				text, err := p.play(path)
				fmt.Fprint(c.OutOrStdout(), text)
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&rewrite, "rewrite", false, "write the transcripts into the files")
	c.Flags().StringVar(&reportPath, "report", "", "write a report of the last network as JSON to this file")
	c.Flags().Uint64Var(&seed, "seed", 0, "seed in place of those in the scenarios")
	return c
}

// player plays scenarios from files.
type player struct {
	rewrite bool
	report  string
	seed    *uint64
}

// play plays one file and returns its transcript.
func (p player) play(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	s := sim.Scenario{Seed: p.seed}
	defer s.Close()
	played, err := s.Play(string(b))
	if err != nil {
		return played.Text, err
	}
	if p.rewrite {
		if err := node.WriteFile(path, []byte(played.Text), 0o644); err != nil {
			return played.Text, err
		}
	}
	if n := s.Sim(); p.report != "" && n != nil {
		r := newReport(n.View(), n.Chain(), n.Checkpoints())
		r.Seed = n.Seed()
		if err := r.write(p.report); err != nil {
			return played.Text, err
		}
	}
	if played.Different != "" && !p.rewrite && p.seed == nil {
		return played.Text, fmt.Errorf("the transcript is another one: %s", played.Different)
	}
	return played.Text, nil
}
