//go:build unix

package node

import "syscall"

// noWait makes opening a pipe that nobody reads an error instead of a wait.
const noWait = syscall.O_NONBLOCK
