package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/pflag"
)

// A run.yaml holds flags under their own names, a line each:
//
//	preset: tiny
//	data: [book.txt, more]
//
// So there is one list of settings, and the command line overrides the file.

// maxConfig bounds the bytes of a run.yaml.
const maxConfig = 1 << 20

// notInConfig are flags that say where a run is kept or what to do with it now, and not what the run is.
var notInConfig = []string{"config", "dir", "dry-run", "standby", "help"}

// loadConfig sets the flags that the file names and the command line does not. The error names the line.
func loadConfig(path string, flags *pflag.FlagSet) error {
	info, err := os.Stat(path)
	if err != nil {
		return usagef("--config: %w: write one with iota init", err)
	}
	if info.Size() > maxConfig {
		return usagef("--config %s has %d bytes: that is no run.yaml", path, info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return usagef("--config: %w", err)
	}
	if err := setConfig(b, flags); err != nil {
		return usagef("%s%w", path, err)
	}
	return nil
}

// setConfig is loadConfig for the bytes of a file. Its error begins with the place in the file.
func setConfig(b []byte, flags *pflag.FlagSet) error {
	file, err := parser.ParseBytes(b, 0)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return fmt.Errorf(": %s", first)
	}
	if len(file.Docs) > 1 {
		return fmt.Errorf(": has %d documents: keep one", len(file.Docs))
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil // comments only
	}
	entries, err := entriesOf(file.Docs[0].Body)
	if err != nil {
		return err
	}
	for _, e := range entries {
		line := e.Key.GetToken().Position.Line
		key := e.Key.GetToken().Value
		flag := flags.Lookup(key)
		if flag == nil || slices.Contains(notInConfig, key) {
			return fmt.Errorf(":%d: unknown key %q: iota init writes a file with all keys", line, key)
		}
		if err := setFlag(flags, flag, e.Value); err != nil {
			return fmt.Errorf(":%d: %s: %w", line, key, err)
		}
	}
	return nil
}

// entriesOf returns the keys and values of a document.
func entriesOf(body ast.Node) ([]*ast.MappingValueNode, error) {
	switch n := body.(type) {
	case *ast.MappingNode:
		return n.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, nil
	case *ast.CommentGroupNode:
		return nil, nil
	}
	return nil, fmt.Errorf(":%d: want lines of the form key: value", body.GetToken().Position.Line)
}

// setFlag gives a flag the value of a node, unless the command line gave it one.
func setFlag(flags *pflag.FlagSet, flag *pflag.Flag, value ast.Node) error {
	texts := []string{}
	list, isList := value.(*ast.SequenceNode)
	switch {
	case isList && flag.Value.Type() != "stringArray":
		return fmt.Errorf("takes one value, not a list")
	case isList:
		for _, item := range list.Values {
			text, err := scalar(item)
			if err != nil {
				return err
			}
			texts = append(texts, text)
		}
	default:
		text, err := scalar(value)
		if err != nil {
			return err
		}
		texts = append(texts, text)
	}
	if flag.Changed {
		return nil
	}
	for _, text := range texts {
		if err := flag.Value.Set(text); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
	}
	return nil
}

// scalar is the text of a node that is neither a list nor a mapping.
func scalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.NullNode:
		return "", fmt.Errorf("has no value: leave the line out for the default")
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	}
	return "", fmt.Errorf("want a plain value")
}
