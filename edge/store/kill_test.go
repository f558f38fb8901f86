//go:build unix

package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/iota-train/iota/protocol/message"
)

// TestMain turns the test binary into a writer that never ends, when the environment names a folder.
func TestMain(m *testing.M) {
	if path := os.Getenv("STORE_WRITER"); path != "" {
		d, err := OpenDir(path)
		for i := 0; err == nil; i++ {
			var h Hash
			h, err = d.Put(context.Background(), message.NewBlob(fmt.Appendf(nil, "%100000d", d.Usage()+uint64(i))))
			fmt.Println(h)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestKilledWriterLeavesWholeBlobsOnly(t *testing.T) {
	ctx, path := context.Background(), t.TempDir()
	for round := range 5 {
		writer := exec.Command(os.Args[0])
		writer.Env = append(os.Environ(), "STORE_WRITER="+path)
		writer.Stderr = os.Stderr
		out, err := writer.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		var put []Hash
		for n := 0; n < 1+9*round && lines.Scan(); n++ {
			h, err := ParseHash(lines.Text())
			if err != nil {
				t.Fatal(err)
			}
			put = append(put, h)
		}
		writer.Process.Kill()
		writer.Wait()
		d := openDir(t, path)
		for _, h := range put {
			if _, err := d.Get(ctx, h, 100000); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Each(ctx, func(i Info) error {
			_, err := d.Get(ctx, i.Hash, 100000)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
