// Package kernel holds the arithmetic of training: matrix products and the
// element-wise work of a transformer, on float32 slices.
//
// Every function has one defined result, down to the last bit, for every input
// that is not NaN: docs/numerics.md is the definition and Numerics its name.
// AVX-512, AVX2 and portable code, with one thread or many, give that result;
// Check proves it for the running machine. Matrix products use fused
// multiply-adds, element-wise code uses none.
//
// Lengths are the caller's duty: slices of one call must be as long as its
// documentation says, else it panics with an index error, as a slice would.
package kernel

import (
	"fmt"
	"os"
	"slices"
)

//go:generate go -C ../../tools run ./kernelgen

// variant is a family of implementations with equal results.
type variant uint8

const (
	portable variant = iota
	avx2
	avx512
	avx512bf16 // avx512, and the processor's dot product of bfloat16s for BF16
)

var variantNames = [...]string{portable: "portable", avx2: "avx2", avx512: "avx512", avx512bf16: "avx512bf16"}

// active is the running variant: the fastest one of this CPU, or the one that the
// environment variable IOTA_KERNEL names.
var active = choose(os.Getenv("IOTA_KERNEL"))

// choose returns the variant called name, or the fastest if this CPU has no such;
// Check reports that.
func choose(name string) variant {
	if i := slices.Index(Variants(), name); i >= 0 {
		return runnable[i]
	}
	return runnable[0]
}

// Variants lists the variants that this CPU can run, fastest first.
func Variants() []string {
	var names []string
	for _, v := range runnable {
		names = append(names, variantNames[v])
	}
	return names
}

// Variant returns the name of the running variant.
func Variant() string { return variantNames[active] }

// Use selects a variant by name, for tests and measurements. It must not be
// called while another goroutine computes.
func Use(name string) error {
	if !slices.Contains(Variants(), name) {
		return fmt.Errorf("use kernel variant %q: this CPU has %v", name, Variants())
	}
	active = choose(name)
	return nil
}
