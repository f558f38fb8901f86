//go:build !amd64

package kernel

func fastest() variant { return portable }
