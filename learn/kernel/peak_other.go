//go:build !amd64

package kernel

func fmaLoop(rounds int) float64 { return portableFMALoop(rounds) }
