//go:build !race

package sim

const (
	usualSeeds  = 100
	usualHonest = 3
)
