package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tileKernel describes a micro-kernel of the matrix product: a tile of C, rows
// high and two vectors wide, that accumulates in registers over a block of k.
//
// A row of B is two vector loads; each element of A is broadcast and serves both.
// A lies packed, strip elements per k, and B anywhere, bRow bytes from one k to
// the next.
//
// With AVX-512 the multiplications of every other row broadcast for themselves:
// fewer instructions, and as many loads as the processor can do meanwhile. A mask
// tells which of C's columns there are, for tiles at the right edge; B's are all
// there, as a masked load costs a slot of the multiplier.
type tileKernel struct {
	isa
	rows, strip int
	dot         bool // of pairs of bfloat16s, instead of fused multiply-adds
	masks       [2]reg.OpmaskVirtual
	acc         [][2]vecReg
	used        int // vector registers given out, if dot
}

// unroll is the number of k in one turn of the loop.
const unroll = 4

func (t *tileKernel) generate() {
	const signature = "func(c, next *float32, cRow uintptr, a, b *float32, bRow uintptr, k int, flags uint8, mask uint32)"
	name := fmt.Sprintf("tile%d%s", t.rows, t.name)
	if t.dot {
		name = fmt.Sprintf("dotTile%d%s", t.rows, t.name)
	}
	TEXT(name, NOSPLIT, signature)
	Doc(name + " sets c to the product of a and b over k terms; see tileAdd and tileFlush.")
	Pragma("noescape")
	if t.isa == avx512 {
		t.columnMasks()
	}
	t.start()
	if t.dot {
		t.terms() // always flushes
	} else {
		t.flushing(t.terms)
	}
	t.writeBack()
	VZEROUPPER()
	RET()
}

// columnMasks loads the masks of the left and the right vector.
func (t *tileKernel) columnMasks() {
	bits := Load(Param("mask"), GP32())
	for j := range t.masks {
		t.masks[j] = K()
		KMOVW(bits, t.masks[j])
		SHRL(Imm(16), bits)
	}
}

// start sets the accumulators to +0, or to what C holds, and begins to fetch the
// next tile of C, which is far away in memory and needed all at once.
func (t *tileKernel) start() {
	t.acc = make([][2]vecReg, t.rows)
	c, cRow := Load(Param("c"), GP64()), Load(Param("cRow"), GP64())
	flags := Load(Param("flags"), GP8())
	for r := range t.acc {
		for j := range t.acc[r] {
			t.acc[r][j] = t.vector()
			VXORPS(t.acc[r][j].AsY(), t.acc[r][j].AsY(), t.acc[r][j].AsY())
		}
	}
	TESTB(Imm(flagAdd), flags)
	JZ(LabelRef("fetch"))
	for r := range t.acc {
		for j := range t.acc[r] {
			t.load(Mem{Base: c, Disp: j * t.bytes}, t.acc[r][j], j)
		}
		ADDQ(cRow, c)
	}
	Label("fetch")
	next := Load(Param("next"), GP64())
	for range t.acc {
		PREFETCHT0(Mem{Base: next})
		PREFETCHT0(Mem{Base: next, Disp: 64})
		ADDQ(cRow, next)
	}
}

// Flags of a tile, as in learn/kernel.
const (
	flagAdd   = 1
	flagFlush = 2
)

// flushing runs terms, with subnormals as zeros if the flags say so: bits 15 and
// 6 of MXCSR are set meanwhile. The scheduler does not interrupt assembly.
func (t *tileKernel) flushing(terms func()) {
	flags := Load(Param("flags"), GP8())
	TESTB(Imm(flagFlush), flags)
	was, now := AllocLocal(4), AllocLocal(4)
	JZ(LabelRef("keep"))
	STMXCSR(was)
	bits := GP32()
	MOVL(was, bits)
	ORL(U32(0x8040), bits)
	MOVL(bits, now)
	LDMXCSR(now)
	Label("keep")
	terms()
	TESTB(Imm(flagFlush), flags)
	JZ(LabelRef("kept"))
	LDMXCSR(was)
	Label("kept")
}

// terms runs the loop over k: whole turns, and then what is left.
func (t *tileKernel) terms() {
	a, b, bRow := Load(Param("a"), GP64()), Load(Param("b"), GP64()), Load(Param("bRow"), GP64())
	k := Load(Param("k"), GP64())
	bRow3 := GP64()
	LEAQ(Mem{Base: bRow, Index: bRow, Scale: 2}, bRow3)
	at := []Mem{{Base: b}, {Base: b, Index: bRow, Scale: 1}, {Base: b, Index: bRow, Scale: 2}, {Base: b, Index: bRow3, Scale: 1}}

	SUBQ(Imm(unroll), k)
	JL(LabelRef("rest"))
	Label("turn")
	for u := range unroll {
		t.term(a, u, at[u])
	}
	ADDQ(U32(4*t.strip*unroll), a)
	LEAQ(Mem{Base: b, Index: bRow, Scale: unroll}, b)
	SUBQ(Imm(unroll), k)
	JGE(LabelRef("turn"))
	Label("rest")
	ADDQ(Imm(unroll), k)
	JZ(LabelRef("done"))
	Label("one")
	t.term(a, 0, at[0])
	ADDQ(U32(4*t.strip), a)
	ADDQ(bRow, b)
	DECQ(k)
	JNZ(LabelRef("one"))
	Label("done")
}

// term adds the products of the u-th k of a turn.
func (t *tileKernel) term(a reg.Register, u int, b Mem) {
	used := t.used
	right := [2]vecReg{t.vector(), t.vector()}
	for j := range right {
		at := b
		at.Disp += j * t.bytes
		VMOVUPS(at, right[j])
	}
	for r := range t.acc {
		element := Mem{Base: a, Disp: 4 * (u*t.strip + r)}
		if r%2 == 1 && t.isa == avx512 && !t.dot {
			for j := range right {
				VFMADD231PS_BCST(element, right[j], t.acc[r][j])
			}
			continue
		}
		left := t.vector()
		VBROADCASTSS(element, left)
		for j := range right {
			t.multiply(right[j], left, t.acc[r][j])
		}
		if t.used == vectors {
			t.used = used + len(right)
		}
	}
	t.used = used
}

// writeBack stores the tile.
func (t *tileKernel) writeBack() {
	c, cRow := Load(Param("c"), GP64()), Load(Param("cRow"), GP64())
	for r := range t.acc {
		for j := range t.acc[r] {
			to := Mem{Base: c, Disp: j * t.bytes}
			if t.isa == avx512 {
				VMOVUPS(t.acc[r][j], t.masks[j], to)
			} else {
				VMOVUPS(t.acc[r][j], to)
			}
		}
		ADDQ(cRow, c)
	}
}

// load reads the left or the right vector of a row of C; with AVX-512, masked
// elements are not read.
func (t *tileKernel) load(from Mem, to vecReg, side int) {
	if t.isa == avx512 {
		VMOVUPS_Z(from, t.masks[side], to)
	} else {
		VMOVUPS(from, to)
	}
}

// peak generates a loop of independent fused multiply-adds, or dot products, on
// n accumulators: what the processor could do at best.
func peak(s isa, n int, dot bool) {
	t := tileKernel{isa: s, dot: dot}
	name := "peak" + s.name
	if dot {
		name = "peakDot" + s.name
	}
	TEXT(name, NOSPLIT, "func(rounds int)")
	Doc(name + " runs rounds times as many multiplications as the loop has accumulators.")
	rounds := Load(Param("rounds"), GP64())
	x := t.vector()
	VXORPS(x.AsY(), x.AsY(), x.AsY())
	acc := make([]vecReg, n)
	for i := range acc {
		acc[i] = t.vector()
		VXORPS(acc[i].AsY(), acc[i].AsY(), acc[i].AsY())
	}
	Label("round")
	for i := range acc {
		t.multiply(x, x, acc[i])
	}
	DECQ(rounds)
	JNZ(LabelRef("round"))
	VZEROUPPER()
	RET()
}
