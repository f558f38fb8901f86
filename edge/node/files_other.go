//go:build !unix

package node

const noWait = 0
