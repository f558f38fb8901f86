//go:build !race

package sim

const (
	usualSeeds  = 150
	usualHonest = 3
)
