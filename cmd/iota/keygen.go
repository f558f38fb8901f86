package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iota-train/iota/edge/node"
)

func keygenCommand() *cobra.Command {
	return &cobra.Command{
		Use: "keygen [FILE]", Short: "Make a key, and print its public part",
		Long: "Writes a new private key to FILE (default: key), which must not exist, and prints the public one: what an operator puts\n" +
			"on the list of --admit. A --dir of an orchestrator, a miner or a validator keeps its key in the file key; without one\n" +
			"it makes its own.",
		Example: "  iota keygen miner1/key", Args: atMostOneArg,
		RunE: func(c *cobra.Command, args []string) error {
			path := keyName
			if len(args) > 0 {
				path = args[0]
			}
			if _, err := os.Lstat(path); err == nil {
				return fmt.Errorf("%s is there already: a key that is overwritten is lost; choose another file", path)
			}
			key, err := loadKey(path, freshKey)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), publicKey(key))
			return nil
		},
	}
}

// atMostOneArg refuses more than one argument.
func atMostOneArg(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("unknown argument %q: see %s --help", args[1], c.CommandPath())
	}
	return nil
}

// freshKey is a new key from the system's random source.
func freshKey() ed25519.PrivateKey {
	_, key, _ := ed25519.GenerateKey(rand.Reader) // never fails
	return key
}

// publicKey is the public part of a key in 64 hex digits, as in a join string.
func publicKey(key ed25519.PrivateKey) string {
	return hex.EncodeToString(key.Public().(ed25519.PublicKey))
}

// loadKey returns the key that a file keeps. Where there is none, it is made with its folder and keeps a fresh one.
func loadKey(path string, fresh func() ed25519.PrivateKey) (ed25519.PrivateKey, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key := fresh()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		return key, node.WriteFile(path, []byte(hex.EncodeToString(key.Seed())+"\n"), 0o600)
	}
	if err != nil {
		return nil, err
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s is not a key: remove it to get a new one", path)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
