package main

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// swapPairs generates the second step of packing for BF16 by fused multiply-adds,
// in place: rows of the given width, one per k, are rounded to bfloat16, and the
// two rows of each pair change places, as the odd element comes first.
func swapPairs(s isa, width int) {
	name := fmt.Sprintf("swap%d%s", width, s.name)
	TEXT(name, NOSPLIT, "func(x *float32, pairs int)")
	Doc(name + " rounds pairs of packed rows to bfloat16.")
	Pragma("noescape")
	x, pairs := Load(Param("x"), GP64()), Load(Param("pairs"), GP64())
	r := newRounder(s, width)

	Label("pair")
	for at := 0; at < 4*width; at += s.bytes {
		even := r.round(Mem{Base: x, Disp: at})
		odd := r.round(Mem{Base: x, Disp: at + 4*width})
		r.store(odd, Mem{Base: x, Disp: at})
		r.store(even, Mem{Base: x, Disp: at + 4*width})
	}
	ADDQ(U32(8*width), x)
	DECQ(pairs)
	JNZ(LabelRef("pair"))
	VZEROUPPER()
	RET()
}

// dotCopy generates what copyParts does, for the dot product: of each pair of rows
// it writes one, each element two bfloat16s, the even row's in the low half. turns
// is interleaved.
func dotCopy(width int, turns Mem) {
	s := avx512
	name := fmt.Sprintf("dotCopy%d%s", width, s.name)
	TEXT(name, NOSPLIT, "func(to *float32, toPart uintptr, from *float32, fromRow uintptr, pairs, parts int)")
	Doc(name + " copies parts of pairs of rows as bfloat16s; toPart is the distance of two parts' places.")
	Pragma("noescape")
	to, toPart := Load(Param("to"), GP64()), Load(Param("toPart"), GP64())
	even, fromRow := Load(Param("from"), GP64()), Load(Param("fromRow"), GP64())
	pairs, parts := Load(Param("pairs"), GP64()), Load(Param("parts"), GP64())
	odd, read, write, left := GP64(), GP64(), GP64(), GP64()
	order := s.vec()
	VMOVUPS(turns, order)
	load, store := firstLanes(s, min(width, s.bytes/4))

	Label("pair")
	LEAQ(Mem{Base: even, Index: fromRow, Scale: 1}, odd)
	XORQ(read, read)
	MOVQ(to, write)
	MOVQ(parts, left)
	Label("part")
	for at := 0; at < 4*width; at += s.bytes {
		VMOVAPS(load(Mem{Base: even, Index: read, Scale: 1, Disp: at}), lower)
		VMOVAPS(load(Mem{Base: odd, Index: read, Scale: 1, Disp: at}), upper)
		convert()
		v := s.vec()
		VPERMW(converted, order, v)
		store(v, Mem{Base: write, Disp: at})
	}
	ADDQ(U32(4*width), read)
	ADDQ(toPart, write)
	DECQ(left)
	JNZ(LabelRef("part"))
	LEAQ(Mem{Base: odd, Index: fromRow, Scale: 1}, even)
	ADDQ(U32(4*width), to)
	DECQ(pairs)
	JNZ(LabelRef("pair"))
	VZEROUPPER()
	RET()
}

// interleaved is a table for VPERMW that takes turns between the halves.
func interleaved() Mem {
	table := GLOBL("interleaved", attr.RODATA|attr.NOPTR)
	for i := range 16 {
		DATA(4*i, U32(i|(16+i)<<16))
	}
	return table
}

// The registers of convert.
var lower, upper, converted = reg.Z30, reg.Z31, reg.Z30

// convert rounds what lower and upper hold to bfloat16s, one after the other, by
// VCVTNE2PS2BF16, which Go's assembler does not know. Its rounding is rounder's.
func convert() {
	evex("VCVTNE2PS2BF16", 0x72, prefixF2, index(lower), index(upper), index(converted))
}

// rounder rounds vectors to bfloat16. The last vector of a row may be partial.
type rounder struct {
	group
	load                           func(Mem) reg.VecVirtual
	store                          func(reg.VecVirtual, Mem)
	size, sign, half, upper, quiet reg.VecVirtual
}

func newRounder(s isa, width int) *rounder {
	r := &rounder{group: group{isa: s}}
	r.load, r.store = firstLanes(s, min(width, s.bytes/4))
	r.size, r.sign = r.bits(0x7fffffff), r.bits(0x80000000)
	r.half, r.upper, r.quiet = r.bits(0x7fff), r.bits(0xffff0000), r.bits(0x00400000)
	return r
}

// round adds half of the last bit that stays, less one unit unless that bit is
// odd, and drops the lower half. Subnormals lose all but their sign; a NaN stays
// one.
func (r *rounder) round(from Mem) reg.VecVirtual {
	x := r.load(from)
	last, y := r.vec(), r.vec()
	VPSRLD(Imm(16), x, last)
	VPSLLD(Imm(31), last, last)
	VPSRLD(Imm(31), last, last)
	VPADDD(r.half, x, y)
	VPADDD(last, y, y)
	r.choose(y, x, unordered, 0, r.apply(VORPS, x, r.quiet))
	r.choose(y, r.apply(VANDPS, x, r.size), lessThan, 0x1p-126, r.apply(VANDPS, x, r.sign))
	return r.apply(VANDPS, y, r.upper)
}

// vecReg is a vector register, virtual or of a known number.
type vecReg interface {
	reg.Register
	AsY() reg.Register
}

// vectors is the number of vector registers of AVX-512.
const vectors = 32

// vector returns a register: for dot one of known number, as its instruction is
// written as bytes.
func (t *tileKernel) vector() vecReg {
	if !t.dot {
		return t.vec()
	}
	t.used++
	return zmm[t.used-1]
}

// multiply adds the products of a and b to sum.
func (t *tileKernel) multiply(a, b, sum vecReg) {
	if t.dot {
		dotBF16(index(a), index(b), index(sum))
		return
	}
	VFMADD231PS(a, b, sum)
}

// dotBF16 writes VDPBF16PS, which Go's assembler does not know, on registers of
// these numbers.
func dotBF16(a, b, sum int) { evex("VDPBF16PS", 0x52, prefixF3, a, b, sum) }

// Prefixes of an instruction, as EVEX writes them.
const (
	prefixF3 = 2
	prefixF2 = 3
)

// evex writes the bytes of EVEX.512.prefix.0F38.W0 opcode /r, on registers of these
// numbers.
func evex(name string, opcode uint16, prefix uint32, a, b, to int) {
	inverted := func(register, bit, place int) uint32 { return uint32(^register>>bit&1) << place }
	const start, map0F38, length512, direct = 0x62, 0x02, 0x40, 0xc0
	p0 := inverted(to, 3, 7) | inverted(a, 4, 6) | inverted(a, 3, 5) | inverted(to, 4, 4) | map0F38
	p1 := uint32(^b&15)<<3 | 0x04 | prefix // bit 2 is always set
	p2 := length512 | inverted(b, 4, 3)
	modRM := direct | uint16(to&7)<<3 | uint16(a&7)
	Comment(fmt.Sprintf("%s Z%d, Z%d, Z%d", name, a, b, to))
	Instruction(&ir.Instruction{Opcode: "LONG", Operands: []Op{U32(start | p0<<8 | p1<<16 | p2<<24)}})
	Instruction(&ir.Instruction{Opcode: "WORD", Operands: []Op{U16(opcode | modRM<<8)}})
}

// zmm are the registers by number.
var zmm = []vecReg{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10,
	reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15, reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21,
	reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31}

func index(v vecReg) int { return slices.Index(zmm, v) }
