//go:build !unix

package node

import "os"

const noWait = 0

// lock knows no way to lock a file here.
func lock(*os.File) (bool, error) { return true, nil }
