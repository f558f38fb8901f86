package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tile generates the micro-kernel of the matrix product: a tile of C with the
// given number of rows, two vectors wide, accumulates in registers over one
// loop over k. A row of B is two vector loads; each element of A is broadcast and
// serves both. Strides are in bytes, so packed and unpacked operands look alike.
//
// The AVX-512 kernel takes a mask of 32 columns, for tiles at the right edge.
func tile(s isa, rows int) {
	signature := "func(c *float32, cRow uintptr, a *float32, aRow, aCol uintptr, b *float32, bRow uintptr, k int, add bool)"
	if s == avx512 {
		signature = "func(c *float32, cRow uintptr, a *float32, aRow, aCol uintptr, b *float32, bRow uintptr, k int, add bool, mask uint32)"
	}
	name := fmt.Sprintf("tile%d%s", rows, s.name)
	TEXT(name, NOSPLIT, signature)
	Doc(name + " sets c to the product of a and b over k terms, on top of what c holds if add.")
	Pragma("noescape")

	masks := columnMasks(s)
	acc := start(s, rows, masks)
	terms(s, acc, masks)
	writeBack(s, acc, masks)
	VZEROUPPER()
	RET()
}

// start sets the accumulators to +0, or to what C holds.
func start(s isa, rows int, masks [2]reg.OpmaskVirtual) [][2]reg.VecVirtual {
	acc := make([][2]reg.VecVirtual, rows)
	for r := range acc {
		for j := range acc[r] {
			acc[r][j] = s.vec()
			VXORPS(acc[r][j].AsY(), acc[r][j].AsY(), acc[r][j].AsY())
		}
	}
	c, cRow := Load(Param("c"), GP64()), Load(Param("cRow"), GP64())
	add := Load(Param("add"), GP8())
	TESTB(add, add)
	JZ(LabelRef("begin"))
	for r := range acc {
		for j := range acc[r] {
			load(s, Mem{Base: c, Disp: j * s.bytes}, acc[r][j], masks[j])
		}
		ADDQ(cRow, c)
	}
	Label("begin")
	return acc
}

// columnMasks loads the masks of the left and the right vector of a tile.
func columnMasks(s isa) (masks [2]reg.OpmaskVirtual) {
	if s == avx2 {
		return masks
	}
	bits := Load(Param("mask"), GP32())
	for j := range masks {
		masks[j] = K()
		KMOVW(bits, masks[j])
		SHRL(Imm(16), bits)
	}
	return masks
}

// terms runs the loop over k. Rows of A are reached from one pointer per
// three rows: base, base + aRow, base + 2 aRow.
func terms(s isa, acc [][2]reg.VecVirtual, masks [2]reg.OpmaskVirtual) {
	aRow, aCol := Load(Param("aRow"), GP64()), Load(Param("aCol"), GP64())
	b, bRow := Load(Param("b"), GP64()), Load(Param("bRow"), GP64())
	k := Load(Param("k"), GP64())
	bases := []reg.Register{Load(Param("a"), GP64())}
	for r := 3; r < len(acc); r += 3 {
		next := GP64()
		LEAQ(Mem{Base: bases[len(bases)-1], Index: aRow, Scale: 2}, next)
		ADDQ(aRow, next)
		bases = append(bases, next)
	}
	right := [2]reg.VecVirtual{s.vec(), s.vec()}
	left := []reg.VecVirtual{s.vec(), s.vec()} // broadcasts of A, in turns

	Label("terms")
	for j := range right {
		load(s, Mem{Base: b, Disp: j * s.bytes}, right[j], masks[j])
	}
	ADDQ(bRow, b)
	for r := range acc {
		at := Mem{Base: bases[r/3]}
		if r%3 > 0 {
			at.Index, at.Scale = aRow, uint8(r%3)
		}
		x := left[r%len(left)]
		VBROADCASTSS(at, x)
		for j := range right {
			VFMADD231PS(right[j], x, acc[r][j])
		}
	}
	for _, base := range bases {
		ADDQ(aCol, base)
	}
	DECQ(k)
	JNZ(LabelRef("terms"))
}

// writeBack stores the tile.
func writeBack(s isa, acc [][2]reg.VecVirtual, masks [2]reg.OpmaskVirtual) {
	c, cRow := Load(Param("c"), GP64()), Load(Param("cRow"), GP64())
	for r := range acc {
		for j := range acc[r] {
			to := Mem{Base: c, Disp: j * s.bytes}
			if s == avx512 {
				VMOVUPS(acc[r][j], masks[j], to)
			} else {
				VMOVUPS(acc[r][j], to)
			}
		}
		ADDQ(cRow, c)
	}
}

// load reads a vector; with AVX-512, masked elements are neither read nor set.
func load(s isa, from Mem, to reg.VecVirtual, mask reg.OpmaskVirtual) {
	if s == avx512 {
		VMOVUPS_Z(from, mask, to)
	} else {
		VMOVUPS(from, to)
	}
}
