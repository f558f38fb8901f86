package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
)

// list returns the files that paths name, in order: a file as it is, a directory as the *.txt and *.gz files below it,
// sorted by name within each directory.
func list(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, errors.New("no data file named: give a text file or a directory")
	}
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, unreadable(path, err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		below, err := listDir(path)
		if err != nil {
			return nil, err
		}
		files = append(files, below...)
	}
	return files, nil
}

func listDir(dir string) ([]string, error) {
	var files []string
	// The slash lets WalkDir enter a directory that is named by a symbolic link.
	err := filepath.WalkDir(dir+string(filepath.Separator), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return unreadable(path, err)
		}
		name := strings.ToLower(entry.Name())
		if !strings.HasSuffix(name, ".txt") && !strings.HasSuffix(name, ".gz") {
			return nil
		}
		info, err := os.Stat(path)
		if err != nil {
			return unreadable(path, err)
		}
		if !info.IsDir() && info.Size() > 0 {
			files = append(files, path)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("data directory %s holds no text: put *.txt or *.gz files there, or name the files", dir)
	}
	return files, err
}

// read returns the text of one file, unpacked if it is gzip, after it was found to be text.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("data file %s is a device or a pipe: write the text to a file first", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		if text, err = unpack(text); err != nil {
			return nil, fmt.Errorf("data file %s is damaged gzip (%w): copy or compress it again", path, err)
		}
	}
	if len(text) == 0 {
		return nil, fmt.Errorf("data file %s is empty: give a file with text, or leave it out", path)
	}
	if at, what := notText(text); what != "" {
		return nil, fmt.Errorf("data file %s is not UTF-8 text (%s at byte %d): give plain text, or convert it to UTF-8",
			path, what, at)
	}
	return text, nil
}

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// notText returns where and why bytes are not text: a NUL byte or invalid UTF-8. The reason is empty for text.
func notText(text []byte) (at int, what string) {
	nul := bytes.IndexByte(text, 0)
	if nul < 0 && utf8.Valid(text) {
		return 0, ""
	}
	limit := len(text)
	if nul >= 0 {
		limit = nul
	}
	for at < limit {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			return at, "an invalid byte"
		}
		at += n
	}
	return nul, "a NUL byte"
}

// unreadable says in one line why a path cannot be read and what to do about it.
func unreadable(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("data file %s does not exist: check the path", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("data file %s may not be read: check its permissions", path)
	}
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("data file %s cannot be read: %w", path, err)
}
