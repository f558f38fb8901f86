// Command kernelgen writes the assembly of learn/kernel with avo. Each kernel is
// described once and generated for AVX-512 and AVX2: tile.go and transpose.go
// are the parts of the matrix product; kernels.go lists the element-wise work in
// terms of rows.go and exp.go, dispatch.go chooses among variants. docs/numerics.md defines what they compute.
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
func (s isa) vec() reg.VecVirtual {
	if s == avx512 {
		return ZMM()
	}
	return YMM()
}

func main() {
	set := flag.String("set", "", "kernels to generate: gemm or rows")
	prefix := flag.String("dispatch", "", "start of the names of the Go files that choose a variant")
	flag.Parse()
	switch *set {
	case "gemm":
		gemm()
	case "rows":
		rows()
		if err := dispatch(*prefix); err != nil {
			log.Fatal("kernelgen: ", err)
		}
	default:
		log.Fatal("kernelgen: -set must be gemm or rows")
	}
	Generate()
}

// gemm generates the matrix product.
func gemm() {
	for _, r := range []int{12, 8, 4, 2, 1} {
		tile(avx512, r)
	}
	for _, r := range []int{6, 4, 2, 1} {
		tile(avx2, r)
	}
	transpose(avx512)
	transpose(avx2)
	peak(avx512, 24)
	peak(avx2, 12)
}
