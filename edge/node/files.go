package node

import (
	"fmt"
	"os"
	"path/filepath"
)

// WriteFile replaces a file as a whole: a process killed at any moment leaves the old content or the new, and a power
// cut does once it returned. What is no regular file, such as a link, a pipe or the terminal, is written to and stays.
func WriteFile(path string, b []byte, mode os.FileMode) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return writeInto(path, b)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // in vain once it was renamed
	_, err = temp.Write(b)
	if err == nil {
		err = temp.Chmod(mode)
	}
	if err == nil {
		err = temp.Sync()
	}
	if e := temp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	return err
}

func writeInto(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|noWait, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// LockFolder makes a folder this process's own until unlock, or until the process ends. It makes the folder if need be.
func LockFolder(path string) (unlock func(), err error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	ok, err := lock(f)
	if err == nil && !ok {
		err = fmt.Errorf("%s is in use by another process: stop it first, or name another folder", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
