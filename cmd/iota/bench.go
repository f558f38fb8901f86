package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func benchCommand() *cobra.Command {
	c := &cobra.Command{Use: "bench", Short: "Measure, each result beside a baseline of the same run", RunE: needSubcommand, Args: cobra.ArbitraryArgs,
		Example: "  iota bench stage --json\n  iota bench pipeline --json"}
	c.AddCommand(benchStageCommand(), benchPipelineCommand(), benchClaspCommand(), benchTrustCommand(), benchTransportCommand())
	return c
}

// benchReport is what a benchmark prints. Metric names are stable.
type benchReport struct {
	Name    string         `json:"name"`
	Config  map[string]any `json:"config"`
	Results []benchResult  `json:"results"`
}

// benchResult is one number beside what it is to be compared with.
type benchResult struct {
	Case           string  `json:"case"`
	Precision      string  `json:"precision,omitempty"`
	Threads        int     `json:"threads,omitempty"`
	Metric         string  `json:"metric"`
	Value          float64 `json:"value"`
	Unit           string  `json:"unit"`
	Reference      string  `json:"reference"`
	ReferenceValue float64 `json:"reference_value"`
	Ratio          float64 `json:"ratio"`
}

// add appends a result with its ratio to the reference.
func (b *benchReport) add(name, metric string, value float64, unit, reference string, referenceValue float64) {
	b.Results = append(b.Results, benchResult{Case: name, Metric: metric, Value: value, Unit: unit,
		Reference: reference, ReferenceValue: referenceValue, Ratio: ratio(value, referenceValue)})
}

// print writes the report as JSON or as a table.
func (b *benchReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(b)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "case\tmetric\tvalue\tunit\treference\t\tratio")
	for _, r := range b.Results {
		reference := ""
		if r.Reference != "" {
			reference = fmt.Sprintf("%s\t%.5g\t%.3f", r.Reference, r.ReferenceValue, r.Ratio)
		}
		fmt.Fprintf(t, "%s\t%s\t%.5g\t%s\t%s\n", r.Case, r.Metric, r.Value, r.Unit, reference)
	}
	return t.Flush()
}

// median returns the middle value, the lower of two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)/2]
}
