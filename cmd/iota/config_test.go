package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagsOf are the flags of a fresh `iota orchestrator`.
func flagsOf() *pflag.FlagSet {
	var c cobra.Command
	new(orchestratorOptions).networkFlags(&c)
	return c.Flags()
}

func TestInitWritesEverySettingWithItsDefault(t *testing.T) {
	f := flagsOf()
	if err := setConfig(runYAML, f); err != nil {
		t.Fatal(err)
	}
	f.VisitAll(func(flag *pflag.Flag) {
		if !strings.Contains(string(runYAML), "\n"+flag.Name+":") && !strings.Contains(string(runYAML), "\n# "+flag.Name+":") {
			t.Errorf("no word of %s", flag.Name)
		}
		if got := flag.Value.String(); got != flag.DefValue && flag.Name != "validators" {
			t.Errorf("%s is %s, its default is %s", flag.Name, got, flag.DefValue)
		}
	})
}

func TestCommentedSettingsWorkWhenTheyAreUncommented(t *testing.T) {
	lines := strings.Split(string(runYAML), "\n")
	f := flagsOf()
	for i, line := range lines {
		rest, ok := strings.CutPrefix(line, "# ")
		key, _, isKey := strings.Cut(rest, ":")
		if ok && (isKey && f.Lookup(key) != nil || strings.HasPrefix(rest, "  - ")) {
			lines[i] = rest
		}
	}
	if err := setConfig([]byte(strings.Join(lines, "\n")), f); err != nil {
		t.Fatal(err)
	}
	if admit, err := f.GetStringArray("admit"); err != nil || len(admit) != 1 || len(admit[0]) != 64 {
		t.Errorf("admit is %q, %v", admit, err)
	}
}

func TestTheCommandLineOverridesTheFile(t *testing.T) {
	f := flagsOf()
	if err := f.Parse([]string{"--preset", "nano", "--data", "mine"}); err != nil {
		t.Fatal(err)
	}
	if err := setConfig([]byte("preset: small\ndata: [theirs]\nepochs: 3\n"), f); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"preset": "nano", "data": "[mine]", "epochs": "3"} {
		if got := f.Lookup(name).Value.String(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestMistakesNameTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"preset: nano\npresets: x\n":     `:2: unknown key "presets"`,
		"preset: nano\ndir: x\n":         `:2: unknown key "dir"`,
		"# a\n\nepochs: many\n":          `:3: epochs: "many"`,
		"preset: [a]\n":                  ":1: preset: takes one value",
		"data:\n  - {a: b}\n":            ":1: data: want a plain value",
		"preset:\n":                      ":1: preset: has no value",
		"preset: a\nfor: 1s\npreset: b":  `key "preset" already defined`,
		"- preset\n":                     ":1: want lines",
		"preset: nano\n---\nepochs: 1\n": "2 documents",
		"preset: \"a\n":                  "[1:9]",
	} {
		err := setConfig([]byte(text), flagsOf())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add(runYAML)
	for _, s := range []string{"", "#", "a: b", "data: [a, b]", "preset: |\n  x\n", "a: *b", "? x", "{}", "[]", "preset: &a b", "<<: x", "1: 2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		_ = setConfig(b, flagsOf()) // an error, or not: never a panic
	})
}
