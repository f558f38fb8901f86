package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The vocabulary of kernels' bodies: each does its work for one part of a group,
// under the group's mask if that is set.

// mem is the place of the part in a slice.
func (g *group) mem(slice string) Mem {
	return Mem{Base: g.base[slice], Index: g.at, Scale: 1, Disp: g.part * g.width}
}

// load reads the part of a slice.
func (g *group) load(slice string) reg.VecVirtual {
	v := register(g.width)
	switch {
	case g.mask == nil:
		VMOVUPS(g.mem(slice), v)
	case g.isa == avx512:
		VMOVUPS_Z(g.mem(slice), g.mask, v)
	default:
		VMASKMOVPS(g.mem(slice), g.mask, v)
	}
	return v
}

// load64 reads the part of a slice as float64.
func (g *group) load64(slice string) reg.VecVirtual {
	v := g.vec()
	VCVTPS2PD(g.load(slice), v)
	return v
}

// store writes the part of a slice.
func (g *group) store(v reg.VecVirtual, slice string) {
	switch {
	case g.mask == nil:
		VMOVUPS(v, g.mem(slice))
	case g.isa == avx512:
		VMOVUPS(v, g.mask, g.mem(slice))
	default:
		VMASKMOVPS(v, g.mask, g.mem(slice))
	}
}

// scalar broadcasts a parameter.
func (g *group) scalar(name string) reg.VecVirtual {
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	v := g.vec()
	VBROADCASTSS(p.Addr, v)
	return v
}

// element broadcasts the i-th float32 of an array.
func (g *group) element(pointer string, i int) reg.VecVirtual {
	v := g.vec()
	VBROADCASTSS(Mem{Base: g.base[pointer], Disp: 4 * i}, v)
	return v
}

// apply returns the result of a three-operand instruction on a and b.
func (g *group) apply(op func(...Op), a, b reg.VecVirtual) reg.VecVirtual {
	v := g.vec()
	op(b, a, v)
	return v
}

func (g *group) add(a, b reg.VecVirtual) reg.VecVirtual { return g.apply(VADDPS, a, b) }
func (g *group) sub(a, b reg.VecVirtual) reg.VecVirtual { return g.apply(VSUBPS, a, b) }
func (g *group) mul(a, b reg.VecVirtual) reg.VecVirtual { return g.apply(VMULPS, a, b) }
func (g *group) div(a, b reg.VecVirtual) reg.VecVirtual { return g.apply(VDIVPS, a, b) }

func (g *group) sqrt(a reg.VecVirtual) reg.VecVirtual {
	v := g.vec()
	VSQRTPS(a, v)
	return v
}

// zero returns +0.
func (g *group) zero() reg.VecVirtual {
	v := g.vec()
	VXORPS(v.AsY(), v.AsY(), v.AsY())
	return v
}

// Predicates of VCMPPS, none of which signals on NaN.
const (
	lessThan    = 0x11
	lessOrEqual = 0x12
	greaterThan = 0x1e
	unordered   = 0x03
)

// choose sets v to other where x compares true with the number.
func (g *group) choose(v, x reg.VecVirtual, predicate uint64, number float32, other reg.VecVirtual) {
	var mask Op = g.vec()
	if g.isa == avx512 {
		mask = K()
	}
	VCMPPS(Imm(predicate), g.number(number), x, mask)
	g.blend(mask, other, v)
}

// blend sets v to other where the mask is set.
func (g *group) blend(mask Op, other, v reg.VecVirtual) {
	if g.isa == avx512 {
		VMOVAPS(other, mask, v)
	} else {
		VBLENDVPS(mask, other, v, v)
	}
}
