package kernel

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"slices"
)

// Check computes known answers of every kernel with the running variant and
// returns an error if one differs, or if the processor does not round to nearest
// or drops subnormal numbers: then this machine may not claim any Numerics. It also
// refuses an IOTA_KERNEL that this CPU does not have.
func Check() error {
	if name := os.Getenv("IOTA_KERNEL"); name != "" && !slices.Contains(Variants(), name) {
		return fmt.Errorf("check kernels: IOTA_KERNEL is %q, this CPU has %v", name, Variants())
	}
	if !roundsToNearest(1, math.SmallestNonzeroFloat32) {
		return errors.New("check kernels: float32 arithmetic does not round to nearest, or drops subnormals")
	}
	for i, a := range answers {
		if got := answerHash(a.run, uint64(i)); got != a.want {
			return fmt.Errorf("check kernels: %s with %s: got %#016x, want %#016x", a.name, Variant(), got, a.want)
		}
	}
	return nil
}

// roundsToNearest tests the rounding mode and subnormals. Its arguments are 1
// and the smallest float32, passed so that the compiler cannot work it out.
//
//go:noinline
func roundsToNearest(one, tiny float32) bool {
	half := one / (1 << 24) // half of the last bit of numbers below 1, a quarter above
	return one+half == one && one+3*half == one+4*half && -one-half == -one &&
		tiny > 0 && tiny*one == tiny && tiny/2 == 0 && (tiny+tiny)/2 == tiny
}

// answer is a call of one kernel on generated inputs, and the hash of its outputs.
type answer struct {
	name string
	want uint64
	run  func(e *Engine, in [5][]float32) [][]float32
}

// Sizes of the inputs of answers: rows of a length that leaves a tail.
const (
	checkRows = 6
	checkCols = 78
)

// answerHash returns the hash of a kernel's outputs, FNV-1a over their bits.
func answerHash(run func(e *Engine, in [5][]float32) [][]float32, seed uint64) uint64 {
	var in [5][]float32
	for i := range in {
		in[i] = noise(checkRows*checkCols, seed*8+uint64(i))
	}
	h := fnv.New64a()
	var word [4]byte
	for _, out := range run(New(1), in) {
		for _, v := range out {
			bits := math.Float32bits(v)
			for i := range word {
				word[i] = byte(bits >> (8 * i))
			}
			h.Write(word[:])
		}
	}
	return h.Sum64()
}

// noise returns n exact float32s in (-4, 4), every 17th of them subnormal.
func noise(n int, seed uint64) []float32 {
	x := make([]float32, n)
	state := seed*0x9e3779b97f4a7c15 + 1
	for i := range x {
		state = state*6364136223846793005 + 1442695040888963407
		x[i] = float32(int32(state>>32)>>8) / (1 << 21)
		if i%17 == 3 {
			x[i] = math.Float32frombits(uint32(state>>42) | uint32(state>>63)<<31)
		}
	}
	return x
}
