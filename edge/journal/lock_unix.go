//go:build unix

package journal

import (
	"errors"
	"os"
	"syscall"
)

// held reports whether another process, or another open File, holds the lock on f. It keeps no lock.
func held(f *os.File) bool {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	}
	return errors.Is(err, syscall.EWOULDBLOCK)
}

// unlock gives up the lock on f, if f is still open and holds it.
func unlock(f *os.File) { syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
