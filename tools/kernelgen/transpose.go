package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose generates the packing of an operand whose elements along k lie side
// by side: it reads up to a vector's width of rows, a whole number of vectors
// long, and writes them as columns. For the dot product it reads pairs of vectors
// and writes bfloat16s, two to an element. Strides are in bytes. Whole vectors are
// written even of fewer rows, so there must be room behind the last.
func transpose(s isa, rows int, dot bool) {
	lanes, step := s.bytes/4, s.bytes
	name := fmt.Sprintf("transpose%d%s", rows, s.name)
	if dot {
		name, step = fmt.Sprintf("dotTranspose%d%s", rows, s.name), 2*s.bytes
	}
	TEXT(name, NOSPLIT, "func(to *float32, toRow uintptr, from *float32, fromRow uintptr, blocks int)")
	Doc(name + " transposes blocks, as wide as a vector, that lie side by side in from.")
	Pragma("noescape")
	to, toRow := Load(Param("to"), GP64()), Load(Param("toRow"), GP64())
	from, fromRow := Load(Param("from"), GP64()), Load(Param("fromRow"), GP64())
	blocks := Load(Param("blocks"), GP64())
	row := GP64()

	Label("block")
	MOVQ(from, row)
	in := make([]reg.VecVirtual, lanes)
	for i := range in {
		if i >= rows {
			in[i] = in[rows-1] // written, and then overwritten
			continue
		}
		in[i] = s.vec()
		if dot {
			VMOVUPS(Mem{Base: row}, lower)
			VMOVUPS(Mem{Base: row, Disp: s.bytes}, upper)
			convert()
			VMOVAPS(converted, in[i])
		} else {
			VMOVUPS(Mem{Base: row}, in[i])
		}
		ADDQ(fromRow, row)
	}
	for _, out := range exchangeLanes(s, exchangeFours(s, in)) {
		VMOVUPS(out, Mem{Base: to})
		ADDQ(toRow, to)
	}
	ADDQ(U32(step), from)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// firstLanes returns a load and a store of the first n lanes of a vector.
func firstLanes(s isa, n int) (load func(Mem) reg.VecVirtual, store func(reg.VecVirtual, Mem)) {
	if n == s.bytes/4 {
		load = func(from Mem) reg.VecVirtual {
			v := s.vec()
			VMOVUPS(from, v)
			return v
		}
		return load, func(v reg.VecVirtual, to Mem) { VMOVUPS(v, to) }
	}
	if s == avx512 {
		mask, bits := K(), GP32()
		MOVL(U32(1<<n-1), bits)
		KMOVW(bits, mask)
		load = func(from Mem) reg.VecVirtual {
			v := s.vec()
			VMOVUPS_Z(from, mask, v)
			return v
		}
		return load, func(v reg.VecVirtual, to Mem) { VMOVUPS(v, mask, to) }
	}
	mask := s.vec()
	VMOVUPS(window.Offset(64-4*n), mask)
	load = func(from Mem) reg.VecVirtual {
		v := s.vec()
		VMASKMOVPS(from, mask, v)
		return v
	}
	return load, func(v reg.VecVirtual, to Mem) { VMASKMOVPS(v, mask, to) }
}

// copyParts generates the packing of an operand whose elements across k lie side
// by side: it reads, from each of k rows, parts of the given number of floats,
// and writes each part to a place of its own, one k after the other.
func copyParts(s isa, width int) {
	name := fmt.Sprintf("copy%d%s", width, s.name)
	TEXT(name, NOSPLIT, "func(to *float32, toPart uintptr, from *float32, fromRow uintptr, k, parts int)")
	Doc(name + " copies parts of rows; toPart is the distance of two parts' places.")
	Pragma("noescape")
	to, toPart := Load(Param("to"), GP64()), Load(Param("toPart"), GP64())
	from, fromRow := Load(Param("from"), GP64()), Load(Param("fromRow"), GP64())
	k, parts := Load(Param("k"), GP64()), Load(Param("parts"), GP64())
	read, write, left := GP64(), GP64(), GP64()

	Label("row")
	MOVQ(from, read)
	MOVQ(to, write)
	MOVQ(parts, left)
	Label("part")
	for at := 0; at < 4*width; {
		at += copyPiece(s, read, write, at, 4*width-at)
	}
	ADDQ(U32(4*width), read)
	ADDQ(toPart, write)
	DECQ(left)
	JNZ(LabelRef("part"))
	ADDQ(fromRow, from)
	ADDQ(U32(4*width), to)
	DECQ(k)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// copyPiece copies the largest piece that a register holds of the bytes left,
// and returns its size.
func copyPiece(s isa, from, to reg.Register, at, left int) int {
	in, out := Mem{Base: from, Disp: at}, Mem{Base: to, Disp: at}
	switch {
	case left >= s.bytes:
		v := s.vec()
		VMOVUPS(in, v)
		VMOVUPS(v, out)
		return s.bytes
	case left >= 32:
		v := YMM()
		VMOVUPS(in, v)
		VMOVUPS(v, out)
		return 32
	case left >= 16:
		v := XMM()
		VMOVUPS(in, v)
		VMOVUPS(v, out)
		return 16
	}
	v := GP64()
	MOVQ(in, v)
	MOVQ(v, out)
	return 8
}

// exchangeFours transposes 4 x 4 blocks within 128-bit lanes: lane L of
// result[i][c] is column 4L+c of rows 4i to 4i+3.
func exchangeFours(s isa, in []reg.VecVirtual) (result [][4]reg.VecVirtual) {
	for i := 0; i < len(in); i += 4 {
		var pair, four [4]reg.VecVirtual
		for j := range pair {
			pair[j], four[j] = s.vec(), s.vec()
		}
		for j := range 2 {
			VUNPCKLPS(in[i+2*j+1], in[i+2*j], pair[2*j])
			VUNPCKHPS(in[i+2*j+1], in[i+2*j], pair[2*j+1])
		}
		for j := range 2 {
			VUNPCKLPD(pair[j+2], pair[j], four[2*j])
			VUNPCKHPD(pair[j+2], pair[j], four[2*j+1])
		}
		result = append(result, four)
	}
	return result
}

// exchangeLanes transposes the grid of 128-bit lanes that exchangeFours leaves.
func exchangeLanes(s isa, in [][4]reg.VecVirtual) []reg.VecVirtual {
	out := make([]reg.VecVirtual, s.bytes/4)
	for i := range out {
		out[i] = s.vec()
	}
	const even, odd = 0x88, 0xdd
	for c := range 4 {
		if s == avx2 {
			VPERM2F128(Imm(0x20), in[1][c], in[0][c], out[c])
			VPERM2F128(Imm(0x31), in[1][c], in[0][c], out[4+c])
			continue
		}
		var half [4]reg.VecVirtual
		for j := range half {
			half[j] = s.vec()
		}
		for j := range 2 {
			VSHUFF32X4(Imm(even), in[2*j+1][c], in[2*j][c], half[2*j])
			VSHUFF32X4(Imm(odd), in[2*j+1][c], in[2*j][c], half[2*j+1])
		}
		for j := range 2 {
			VSHUFF32X4(Imm(even), half[2+j], half[j], out[4*j+c])
			VSHUFF32X4(Imm(odd), half[2+j], half[j], out[8+4*j+c])
		}
	}
	return out
}
