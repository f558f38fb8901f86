package sim

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var c Scenario
		defer c.Close()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			output, err := c.Do(strings.TrimSpace(d.FullCmd()))
			if err != nil {
				t.Errorf("%s: %v", d.Pos, err)
				return "error: " + err.Error() + "\n"
			}
			return output
		})
	})
}
