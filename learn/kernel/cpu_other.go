//go:build !amd64

package kernel

// runnable are the variants of this CPU.
var runnable = []variant{portable}
