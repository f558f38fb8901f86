package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dot64 generates the dot product in float64. A product of two float32s is exact
// there, so fusing it with the addition changes nothing.
func dot64(s isa) {
	TEXT("dot64"+s.name, NOSPLIT, "func(l *[16]float64, x, y []float32)")
	Doc("dot64" + s.name + " adds x*y, exact in float64, to the lanes.")
	Pragma("noescape")
	l, end := Load(Param("l"), GP64()), Load(Param("x").Len(), GP64())
	x, y, at := Load(Param("x").Base(), GP64()), Load(Param("y").Base(), GP64()), GP64()
	acc := make([]reg.VecVirtual, 128/s.bytes)
	for i := range acc {
		acc[i] = s.vec()
		VMOVUPD(Mem{Base: l, Disp: i * s.bytes}, acc[i])
	}
	a, b := s.vec(), s.vec()
	SHLQ(Imm(2), end)
	XORQ(at, at)
	JMP(LabelRef("test"))
	Label("group")
	for i := range acc {
		VCVTPS2PD(Mem{Base: x, Index: at, Scale: 1, Disp: i * s.bytes / 2}, a)
		VCVTPS2PD(Mem{Base: y, Index: at, Scale: 1, Disp: i * s.bytes / 2}, b)
		VFMADD231PD(a, b, acc[i])
	}
	ADDQ(Imm(64), at)
	Label("test")
	CMPQ(at, end)
	JLT(LabelRef("group"))
	for i := range acc {
		VMOVUPD(acc[i], Mem{Base: l, Disp: i * s.bytes})
	}
	VZEROUPPER()
	RET()
}
