//go:build race

package sim

// usualSeeds are few where every simulation takes ten times as long.
const usualSeeds = 15
