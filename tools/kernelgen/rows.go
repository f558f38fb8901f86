package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// kernel describes an element-wise kernel: a loop over groups of 16 elements of
// all its slices, which are equally long. With the parameter "l", 16 lanes of a
// reduction, an accumulator is read before the loop and written after it.
type kernel struct {
	name   string
	doc    string
	params []string // "name type"
	body   func(g *group)
}

// group is the code for one group of 16 elements, or with AVX2 for one half of it.
type group struct {
	isa
	base map[string]reg.Register
	at   reg.Register // byte offset of the group
	half int
	acc  reg.VecVirtual // the lanes of a reduction
}

// rows generates the element-wise kernels.
func rows() {
	dot64(avx512)
	dot64(avx2)
	for _, k := range kernels {
		k.generate(avx512)
		k.generate(avx2)
	}
}

// generate writes the kernel's function for one instruction set.
func (k kernel) generate(s isa) {
	TEXT(k.name+s.name, NOSPLIT, "func("+strings.Join(k.params, ", ")+")")
	Doc(k.name + s.name + " " + k.doc)
	Pragma("noescape")
	g := group{isa: s, base: map[string]reg.Register{}, at: GP64()}
	end := GP64()
	for _, p := range k.params {
		switch name, kind, _ := strings.Cut(p, " "); {
		case kind == "[]float32":
			g.base[name] = Load(Param(name).Base(), GP64())
			Load(Param(name).Len(), end)
		case strings.HasPrefix(kind, "*"):
			g.base[name] = Load(Param(name), GP64())
		}
	}
	halves := 64 / s.bytes
	acc := make([]reg.VecVirtual, halves)
	if l, ok := g.base["l"]; ok {
		for h := range acc {
			acc[h] = s.vec()
			VMOVUPS(Mem{Base: l, Disp: h * s.bytes}, acc[h])
		}
	}
	SHLQ(Imm(2), end) // elements to bytes
	XORQ(g.at, g.at)
	JMP(LabelRef("test"))
	Label("group")
	for g.half = range halves {
		g.acc = acc[g.half]
		k.body(&g)
	}
	ADDQ(Imm(64), g.at)
	Label("test")
	CMPQ(g.at, end)
	JLT(LabelRef("group"))
	if l, ok := g.base["l"]; ok {
		for h := range acc {
			VMOVUPS(acc[h], Mem{Base: l, Disp: h * s.bytes})
		}
	}
	VZEROUPPER()
	RET()
}

// mem is the place of the group in a slice.
func (g *group) mem(slice string) Mem {
	return Mem{Base: g.base[slice], Index: g.at, Scale: 1, Disp: g.half * g.bytes}
}

// load reads the group of a slice.
func (g *group) load(slice string) reg.VecVirtual {
	v := g.vec()
	VMOVUPS(g.mem(slice), v)
	return v
}

// store writes the group of a slice.
func (g *group) store(v reg.VecVirtual, slice string) { VMOVUPS(v, g.mem(slice)) }

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

// accumulate adds v to the lanes.
func (g *group) accumulate(v reg.VecVirtual) { VADDPS(v, g.acc, g.acc) }
