package data

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// FuzzText reads strange files: an error of one line, or a text whose tokens give it back.
func FuzzText(f *testing.F) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte("some text"))
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	for _, b := range [][]byte{[]byte("Plain text.\n"), []byte("na\xc3\xafve \xf0\x9f\x98\x80"), []byte("\xff\xfe"), {0}, packed.Bytes(), packed.Bytes()[:12], {0x1f, 0x8b}} {
		f.Add(b)
	}
	path := filepath.Join(f.TempDir(), "text.txt")
	tokenizer, err := NewTokenizer(Bytes)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := read(path)
		if err != nil {
			if bytes.ContainsRune([]byte(err.Error()), '\n') {
				t.Fatalf("more than a line: %q", err)
			}
			return
		}
		if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
			t.Fatalf("this is no text: %q", text)
		}
		tokens, err := tokenizer.Encode(string(text))
		if err != nil {
			t.Fatal(err)
		}
		if back, err := tokenizer.Decode(tokens); err != nil || back != string(text) {
			t.Fatalf("%q comes back as %q: %v", text, back, err)
		}
		_, _ = Open([]string{path}, tokenizer)
	})
}
