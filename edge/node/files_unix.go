//go:build unix

package node

import (
	"errors"
	"os"
	"syscall"
)

// noWait makes opening a pipe that nobody reads an error instead of a wait.
const noWait = syscall.O_NONBLOCK

// lock takes the lock on an open file, for as long as it is open. It reports false when another process holds it.
func lock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
