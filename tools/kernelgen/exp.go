package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Numbers of the exponential, as in learn/kernel/exp.go.
const (
	expLow   = -87
	expHigh  = 88.72283
	log2e    = 1.44269504
	ln2High  = 0.693359375
	ln2Low   = -2.12194440e-4
	expMagic = 12582912
)

// expQ are the coefficients of the polynomial, highest power first.
var expQ = []float32{0.0013813878, 0.008369064, 0.041668423, 0.16666518, 0.49999994}

// constants holds what was already placed in the read-only data.
var constants = map[uint32]Mem{}

// number broadcasts a constant.
func (g *group) number(x float32) reg.VecVirtual { return g.bits(math.Float32bits(x)) }

// bits broadcasts the constant with these bits.
func (g *group) bits(x uint32) reg.VecVirtual {
	if _, ok := constants[x]; !ok {
		constants[x] = ConstData(fmt.Sprintf("bits%08x", x), U32(x))
	}
	v := g.vec()
	VBROADCASTSS(constants[x], v)
	return v
}

// exp returns e^x: x = n ln 2 + r, e^x = 2^n (1 + r + r^2 Q(r)). Adding magic
// rounds x log2 e to the integer n and leaves n in the low bits, from where it
// is shifted into the exponent. No multiplication and addition is fused.
func (g *group) exp(x reg.VecVirtual) reg.VecVirtual {
	magic := g.number(expMagic)
	t := g.add(g.mul(x, g.number(log2e)), magic)
	n := g.sub(t, magic)
	r := g.sub(x, g.mul(n, g.number(ln2High)))
	r = g.sub(r, g.mul(n, g.number(ln2Low)))
	q := g.number(expQ[0])
	for _, c := range expQ[1:] {
		q = g.add(g.mul(q, r), g.number(c))
	}
	q = g.add(g.mul(q, g.mul(r, r)), r)
	q = g.add(q, g.number(1))
	VPSLLD(Imm(23), t, t)
	VPADDD(t, q, q)
	g.choose(q, x, lessThan, expLow, g.zero())
	g.choose(q, x, greaterThan, expHigh, g.bits(0x7f800000))
	g.choose(q, x, unordered, 0, x)
	return q
}

// sigmoid returns 1/(1 + e^-x).
func (g *group) sigmoid(x reg.VecVirtual) reg.VecVirtual {
	one := g.number(1)
	minus := g.apply(VXORPS, x, g.bits(0x80000000))
	return g.div(one, g.add(one, g.exp(minus)))
}

// siluSlope returns the derivative of x sigmoid(x), given s = sigmoid(x).
func (g *group) siluSlope(x, s reg.VecVirtual) reg.VecVirtual {
	one := g.number(1)
	return g.mul(s, g.add(one, g.mul(x, g.sub(one, s))))
}
