package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"iota": main})
}

// leakChecked fails when a test leaves a goroutine behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		println(err.Error())
		return 1
	}
	return code
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exitcode": exitCode, "oneline": oneLine, "noise": noise, "damage": damage, "same": same,
		},
	})
}

// exitCode runs a command that must fail with a code, and with exactly one line of standard error.
func exitCode(ts *testscript.TestScript, _ bool, args []string) {
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); !errors.As(err, &exit) || strconv.Itoa(exit.ExitCode()) != args[0] {
		ts.Fatalf("want exit code %s, got %v", args[0], err)
	}
	oneLine(ts, false, []string{"stderr", "iota: "})
}

// oneLine checks that a file, or the standard error before, is exactly one line that begins as given.
func oneLine(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile(args[0])
	if neg || strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, args[1]) {
		ts.Fatalf("want one line %q, got %q", args[1], text)
	}
}

// noise writes a file that is no text.
func noise(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bytes.Repeat([]byte{0, 0xff, 0xfe, 7}, 1000), 0o644))
}

// damage changes a text, in which escapes of Go may stand, wherever a file holds it.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	from, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	to, err := strconv.Unquote(`"` + args[2] + `"`)
	ts.Check(err)
	changed := bytes.ReplaceAll(b, []byte(from), []byte(to))
	if bytes.Equal(b, changed) || len(b) != len(changed) {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(path, changed, 0o644))
}

// same checks that two files, or the same key of two reports, are equal.
func same(ts *testscript.TestScript, neg bool, args []string) {
	pick := func(name string) string {
		for _, line := range strings.Split(ts.ReadFile(name), "\n") {
			if strings.Contains(line, args[2]) {
				return line
			}
		}
		ts.Fatalf("%s has no %s", name, args[2])
		return ""
	}
	if a, b := pick(args[0]), pick(args[1]); (a == b) == neg {
		ts.Fatalf("%s\n%s", a, b)
	}
}
