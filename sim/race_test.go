//go:build race

package sim

// Simulations are few where each takes ten times as long.
const (
	usualSeeds  = 15
	usualHonest = 1
)
