package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose generates the packing of a transposed operand: it reads as many
// rows as a vector has lanes, a whole number of vectors long, and writes them
// as columns. Strides are in bytes.
func transpose(s isa) {
	lanes := s.bytes / 4
	TEXT("transpose"+s.name, NOSPLIT, "func(to *float32, toRow uintptr, from *float32, fromRow uintptr, blocks int)")
	Doc("transpose" + s.name + " transposes square blocks of a vector's width, that lie side by side in from.")
	Pragma("noescape")
	to, toRow := Load(Param("to"), GP64()), Load(Param("toRow"), GP64())
	from, fromRow := Load(Param("from"), GP64()), Load(Param("fromRow"), GP64())
	blocks := Load(Param("blocks"), GP64())
	row := GP64()

	Label("block")
	MOVQ(from, row)
	in := make([]reg.VecVirtual, lanes)
	for i := range in {
		in[i] = s.vec()
		VMOVUPS(Mem{Base: row}, in[i])
		ADDQ(fromRow, row)
	}
	for _, out := range exchangeLanes(s, exchangeFours(s, in)) {
		VMOVUPS(out, Mem{Base: to})
		ADDQ(toRow, to)
	}
	ADDQ(Imm(uint64(s.bytes)), from)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
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

// peak generates a loop of independent fused multiply-adds on n accumulators:
// what the processor could do at best.
func peak(s isa, n int) {
	TEXT("peak"+s.name, NOSPLIT, "func(rounds int)")
	Doc("peak" + s.name + " runs rounds times as many fused multiply-adds as the loop has accumulators.")
	rounds := Load(Param("rounds"), GP64())
	x := s.vec()
	VXORPS(x.AsY(), x.AsY(), x.AsY())
	acc := make([]reg.VecVirtual, n)
	for i := range acc {
		acc[i] = s.vec()
		VXORPS(acc[i].AsY(), acc[i].AsY(), acc[i].AsY())
	}
	Label("round")
	for i := range acc {
		VFMADD231PS(x, x, acc[i])
	}
	DECQ(rounds)
	JNZ(LabelRef("round"))
	VZEROUPPER()
	RET()
}
