//go:build !linux

package tensor

// hugePages does nothing: the system decides.
func hugePages([]byte) {}
