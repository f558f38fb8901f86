package sim

import (
	"fmt"
	"strings"
)

// separator stands between a command and its output.
const separator = "----"

// Played is a transcript that was played.
type Played struct {
	Text string // the transcript with the output that came
	// Different names the first line whose output is other than the transcript says, "" if none is. Commands without
	// any output in the transcript are not compared.
	Different string
}

// Play carries out a transcript: commands, each with its output after a line of dashes and up to an empty line. Lines
// that begin with # are comments. The error is a mistake in a command or a broken law, and names the line.
func (c *Scenario) Play(text string) (Played, error) {
	var out strings.Builder
	var p Played
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		command := strings.TrimSpace(lines[i])
		out.WriteString(lines[i] + "\n")
		if command == "" || strings.HasPrefix(command, "#") {
			continue
		}
		line := i + 1
		var expected []string
		if i+1 < len(lines) && lines[i+1] == separator {
			for i += 2; i < len(lines) && lines[i] != ""; i++ {
				expected = append(expected, lines[i])
			}
			i-- // the empty line is written like any other
		}
		output, err := c.Do(command)
		if err != nil {
			p.Text = out.String() + output
			return p, fmt.Errorf("line %d: %w", line, err)
		}
		out.WriteString(separator + "\n" + output)
		if i+1 < len(lines) && lines[i+1] != "" {
			out.WriteString("\n") // commands one below the other: they get apart
		}
		if p.Different == "" {
			p.Different = difference(line+2, expected, strings.Split(strings.TrimSuffix(output, "\n"), "\n"))
		}
	}
	p.Text = out.String()
	return p, nil
}

// difference says in one line where an output differs from what was expected. line is that of the first.
func difference(line int, expected, got []string) string {
	if len(expected) == 0 {
		return ""
	}
	for i := range max(len(expected), len(got)) {
		want, have := "nothing", "nothing"
		if i < len(expected) {
			want = expected[i]
		}
		if i < len(got) {
			have = got[i]
		}
		if want != have {
			return fmt.Sprintf("line %d: expected %q, got %q", line+i, want, have)
		}
	}
	return ""
}
