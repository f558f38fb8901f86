package tensor

import (
	"fmt"
	"unsafe"
)

// lineFloats is the number of float32s in a cache line of 64 bytes.
const lineFloats = 16

// Arena is one block of memory from which slices are carved in order, each from
// the start of a cache line on. What a layout carves is known before it is
// allocated, because the same function runs on an arena that only counts.
type Arena struct {
	block []float32 // nil: this arena counts
	used  int       // float32s carved, up to whole cache lines
}

// Carve allocates what layout takes, in one piece, and runs layout on it.
// layout runs twice, the first time on an arena that only counts, and must take
// the same both times.
func Carve(layout func(a *Arena)) {
	a := Arena{block: New(Measure(layout) / floatBytes)}
	layout(&a)
	if a.used != len(a.block) {
		panic(fmt.Sprintf("tensor: a layout took %d numbers of %d", a.used, len(a.block)))
	}
}

// Measure returns the bytes that layout takes from an arena.
func Measure(layout func(a *Arena)) int {
	var a Arena
	layout(&a)
	return floatBytes * a.used
}

// Take carves n zeros; from an arena that counts it returns nil. It panics if
// the arena has less.
func (a *Arena) Take(n int) []float32 {
	from := a.used
	a.used += wholeLines(n)
	if a.block == nil {
		return nil
	}
	if a.used > len(a.block) {
		panic(fmt.Sprintf("tensor: %d numbers from an arena that has %d left", n, len(a.block)-from))
	}
	return a.block[from : from+n : from+n]
}

// New returns n zeros that begin on a cache line, on huge pages where there are
// enough and the system has them.
func New(n int) []float32 {
	x := make([]float32, n+lineFloats-1)
	over := uintptr(unsafe.Pointer(unsafe.SliceData(x))) / floatBytes % lineFloats
	skip := int((lineFloats - over) % lineFloats)
	x = x[skip : skip+n : skip+n]
	hugePages(memory(x))
	return x
}

const floatBytes = 4

func wholeLines(n int) int { return (n + lineFloats - 1) / lineFloats * lineFloats }
