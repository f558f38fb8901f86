// Command kernelgen writes the assembly of learn/kernel with avo; run it in the
// tools folder. Each kernel is described once and generated for AVX-512 and
// AVX2: tile.go and transpose.go are the parts of the matrix product; kernels.go
// lists the element-wise work in terms of rows.go, group.go and exp.go; dispatch.go
// writes the Go functions that choose a variant. docs/numerics.md defines the results.
package main

import (
	"flag"
	"log"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

// isa is one of the two instruction sets.
type isa struct {
	name  string // suffix of the functions
	bytes int    // of a vector register
}

var (
	avx512 = isa{"AVX512", 64}
	avx2   = isa{"AVX2", 32}
)

// vec returns a new vector register.
func (s isa) vec() reg.VecVirtual { return register(s.bytes) }

// register returns a new vector register of 16, 32 or 64 bytes.
func register(bytes int) reg.VecVirtual {
	switch bytes {
	case 64:
		return ZMM()
	case 32:
		return YMM()
	}
	return XMM()
}

func main() {
	const folder = "../learn/kernel/"
	if err := dispatch(folder + "rows"); err != nil {
		log.Fatal("kernelgen: ", err)
	}
	windowOfMasks()
	products()
	rows()
	for name, value := range map[string]string{ // read by Generate
		"out": folder + "kernels_amd64.s", "stubs": folder + "kernels_stub_amd64.go", "pkg": "kernel",
	} {
		if err := flag.Set(name, value); err != nil {
			log.Fatal("kernelgen: ", err)
		}
	}
	Generate()
}

// products generates the parts of the matrix product.
func products() {
	for _, shape := range []struct {
		isa  isa
		rows []int // heights of tiles, the largest first
		cols int
	}{{avx512, []int{12, 8, 4, 2, 1}, 32}, {avx2, []int{6, 4, 2, 1}, 16}} {
		strip := shape.rows[0]
		for _, rows := range shape.rows {
			(&tileKernel{isa: shape.isa, rows: rows, strip: strip}).generate()
		}
		transpose(shape.isa, strip, false)
		transpose(shape.isa, shape.isa.bytes/4, false)
		copyParts(shape.isa, strip)
		copyParts(shape.isa, shape.cols)
		swapPairs(shape.isa, strip)
		swapPairs(shape.isa, shape.cols)
	}
	for _, rows := range []int{12, 8, 4, 2, 1} {
		(&tileKernel{isa: avx512, rows: rows, strip: 12, dot: true}).generate()
	}
	transpose(avx512, 12, true)
	transpose(avx512, 16, true)
	table := interleaved()
	dotCopy(12, table)
	dotCopy(32, table)
	peak(avx512, 24, false)
	peak(avx512, 24, true)
	peak(avx2, 12, false)
}
