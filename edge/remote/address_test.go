package remote

import (
	"strings"
	"testing"
)

func TestJoinStringNamesKeyAndPlace(t *testing.T) {
	digits := strings.Repeat("0f", 32)
	for _, host := range []string{"example.org:4040", "127.0.0.1:1", "[::1]:65535"} {
		a, err := ParseAddress(digits + "@" + host)
		if err != nil || a.Host != host || a.String() != digits+"@"+host {
			t.Errorf("%s: %v, %v", host, a, err)
		}
	}
	for _, s := range []string{"", "@", "example.org:4040", digits, digits + "@", digits + "@host", digits + "@:4040", digits + "@host:",
		digits + "@host:0", digits + "@host:70000", digits[1:] + "@host:1", digits + "00@host:1", "x" + digits[1:] + "@host:1", strings.Repeat("a", 10_000)} {
		_, err := ParseAddress(s)
		if err == nil || !strings.Contains(err.Error(), "KEY@HOST:PORT") || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
			t.Errorf("%.100q: %v", s, err)
		}
	}
}
