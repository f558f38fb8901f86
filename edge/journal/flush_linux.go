package journal

import (
	"os"
	"syscall"
)

// writeThrough has every write return when its data is on the disk, in one system call.
const writeThrough = syscall.O_DSYNC

func flush(*os.File) error { return nil }
