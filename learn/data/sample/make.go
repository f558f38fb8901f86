// Command sample makes sotu.txt.zst, the text that is embedded in package data, from a text of State of the
// Union addresses with one paragraph per address in order of year. It keeps the latest whole addresses:
//
//	go run ./learn/data/sample [-bytes 3000000] INPUT(.txt or .txt.gz) learn/data/sample/sotu.txt.zst
//
// The same input gives the same text; README.md says where the input comes from.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func main() {
	size := flag.Int("bytes", 3_000_000, "keep whole addresses from the end until the text has this many bytes")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "sample: give the input and the output file")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Arg(1), *size); err != nil {
		fmt.Fprintln(os.Stderr, "sample:", err)
		os.Exit(1)
	}
}

func run(input, output string, size int) error {
	text, err := read(input)
	if err != nil {
		return err
	}
	kept, addresses := latest(text, size)
	packed, err := compress(kept)
	if err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	fmt.Printf("%d addresses, %d bytes, %d compressed\n", addresses, len(kept), len(packed))
	return os.WriteFile(output, packed, 0o644)
}

// read returns the text of a file, unpacked if it is gzip.
func read(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		return raw, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", path, err)
	}
	return io.ReadAll(r)
}

// latest returns the last addresses of the text, joined by blank lines, and their number. It takes whole ones until
// they have at least size bytes together.
func latest(text []byte, size int) ([]byte, int) {
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n\n"))
	first, total := len(all), 0
	for first > 0 && total < size {
		first--
		all[first] = bytes.TrimSpace(all[first])
		total += len(all[first]) + 2
	}
	return append(bytes.Join(all[first:], []byte("\n\n")), '\n'), len(all) - first
}

func compress(text []byte) ([]byte, error) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(8<<20))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return w.EncodeAll(text, nil), nil
}
