package remote

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/protocol/message"
)

// TestPythonClient: the protocol can be spoken without this program.
func TestPythonClient(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	if out, err := exec.Command(python, "-c", "import grpc, cryptography").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Skipf("python3 lacks grpcio or cryptography: %s", lines[len(lines)-1])
	}
	h, _, blobs, m := hub(t)
	s := open(t, func(c *ServerConfig) { c.Blobs, c.Manifest = blobs, message.Encode(m) })
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- h.Serve(ctx, s) }()
	defer func() { cancel(); <-served }()
	client := func(a Address, numerics string) string {
		out, _ := exec.CommandContext(t.Context(), python, "testdata/client.py", a.String(), numerics).CombinedOutput()
		return string(out)
	}
	for numerics, want := range map[string]string{
		string(kernel.F32): "welcome\n",
		"abacus":           "refused: this run needs numerics " + string(kernel.F32) + ", yours is abacus",
	} {
		if out := client(s.address, numerics); !strings.Contains(out, want) || !strings.Contains(out, `status {"phase":"Waiting"}`) {
			t.Errorf("numerics %s: %s", numerics, out)
		}
	}
	if out := client(Address{Key: public("somebody else"), Host: s.address.Host}, "abacus"); !strings.Contains(out, "check the join string") {
		t.Errorf("the wrong key: %s", out)
	}
}
