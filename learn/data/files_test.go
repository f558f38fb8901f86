package data

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// write makes a file below dir and returns its path.
func write(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func TestOpenReadsDirectoriesInSortedOrder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "b.txt", []byte("two"))
	write(t, dir, "a/z.txt.gz", gzipped(t, "one"))
	write(t, dir, "c.TXT", []byte("drei"))
	write(t, dir, "d/e/f.gz", gzipped(t, "four"))
	write(t, dir, "empty.txt", nil)
	write(t, dir, "picture.png", []byte{0, 1, 2})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip("no symbolic links:", err)
	}
	want, err := FromTexts(tokenizer(t, Bytes), []byte("one"), []byte("two"), []byte("drei"), []byte("four"))
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{dir, dir + "/", link} {
		got, err := Open([]string{root}, tokenizer(t, Bytes))
		if err != nil {
			t.Fatal(err)
		}
		if got.Hash() != want.Hash() || string(got.text) != string(want.text) {
			t.Errorf("%s: %q", root, got.text)
		}
	}
}

func TestOpenTakesANamedFileWhateverItsName(t *testing.T) {
	dir := t.TempDir()
	plain, packed := write(t, dir, "LICENSE", []byte("text")), write(t, dir, "packed", gzipped(t, "text"))
	a, err := Open([]string{plain}, tokenizer(t, R50kBPE))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open([]string{packed}, tokenizer(t, R50kBPE))
	if err != nil {
		t.Fatal(err)
	}
	if a.Hash() != b.Hash() || a.Tokens() != 1 || b.Tokens() != 1 {
		t.Errorf("%d and %d tokens", a.Tokens(), b.Tokens())
	}
}

func TestOpenSaysInOneLineWhatToDo(t *testing.T) {
	dir := t.TempDir()
	bad := gzipped(t, strings.Repeat("some text ", 100))
	for name, c := range map[string]struct {
		paths []string
		want  string
	}{
		"nothing named":   {nil, "give a text file or a directory"},
		"missing":         {[]string{filepath.Join(dir, "no.txt")}, "no.txt does not exist: check the path"},
		"below a file":    {[]string{write(t, dir, "f.txt", []byte("x")) + "/g.txt"}, "f.txt/g.txt"},
		"empty":           {[]string{write(t, dir, "empty.txt", nil)}, "is empty: give a file with text"},
		"empty gzip":      {[]string{write(t, dir, "empty.gz", gzipped(t, ""))}, "is empty: give a file with text"},
		"NUL byte":        {[]string{write(t, dir, "nul.txt", []byte("ab\x00\xff"))}, "a NUL byte at byte 2"},
		"invalid UTF-8":   {[]string{write(t, dir, "latin.txt", []byte("caf\xe9 \x00"))}, "an invalid byte at byte 3"},
		"UTF-16":          {[]string{write(t, dir, "wide.txt", []byte("\xff\xfeh\x00i\x00"))}, "convert it to UTF-8"},
		"damaged gzip":    {[]string{write(t, dir, "bad.gz", bad[:len(bad)-9])}, "copy or compress it again"},
		"empty directory": {[]string{t.TempDir()}, "holds no text: put *.txt or *.gz files there"},
	} {
		_, err := Open(c.paths, tokenizer(t, Bytes))
		switch {
		case err == nil:
			t.Errorf("%s: no error", name)
		case !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: %q, want %q in one line", name, err, c.want)
		}
	}
}
