package remote

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Address says where an orchestrator listens and which key it must prove to have there.
type Address struct {
	Key  ed25519.PublicKey
	Host string // HOST:PORT
}

// ParseAddress reads a join string, KEY@HOST:PORT.
func ParseAddress(s string) (Address, error) {
	wrong := func(what string) (Address, error) {
		return Address{}, fmt.Errorf("join string %q: %s; it has the form KEY@HOST:PORT, KEY being the orchestrator's 64 hex digits", shorten(s), what)
	}
	digits, host, ok := strings.Cut(strings.TrimSpace(s), "@")
	if !ok {
		return wrong("there is no @ in it")
	}
	key, err := hex.DecodeString(digits)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return wrong("the key before the @ is not 64 hex digits")
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil || name == "" {
		return wrong("what follows the @ is not HOST:PORT")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return wrong("the port is not a number from 1 to 65535")
	}
	return Address{Key: key, Host: host}, nil
}

// String returns the join string.
func (a Address) String() string { return hex.EncodeToString(a.Key) + "@" + a.Host }

// shorten keeps an error line readable, whatever was typed.
func shorten(s string) string {
	const longest = 120
	if len(s) <= longest {
		return s
	}
	return s[:longest] + "..."
}
