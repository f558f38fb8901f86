package main

import (
	"math"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// kernel describes an element-wise kernel: a loop over groups of 16 elements of
// all its slices, which are equally long. Elements that fill no group follow
// under a mask: what is beyond them is read as +0, not written, and counts for
// no lane. A kernel with a reduction returns what its lanes come to.
type kernel struct {
	name    string
	doc     string
	params  []string // "name type"
	returns *reduction
	body    func(g *group)
}

// reduction joins values on 16 lanes: op(x, lane) takes one into its lane, and
// op(lower half, upper half) halves the lanes until one is left.
type reduction struct {
	kind  string // of the lanes
	bytes int    // of a lane
	start float32
	op    func(...Op)
}

var (
	sum     = &reduction{"float32", 4, 0, VADDPS}
	largest = &reduction{"float32", 4, float32(math.Inf(-1)), VMAXPS}
	sum64   = &reduction{"float64", 8, 0, VADDPD}
)

// group is the code for one group of 16 elements, in parts of as many elements
// as a vector has lanes.
type group struct {
	isa
	returns *reduction
	base    map[string]reg.Register
	at      reg.Register // byte offset of the group
	width   int          // bytes of a part
	part    int
	acc     []reg.VecVirtual // the lanes, by part
	mask    Op               // of the part's elements, nil for all
}

// rows generates the element-wise kernels.
func rows() {
	for _, k := range kernels {
		k.generate(avx512)
		k.generate(avx2)
	}
}

// window holds 16 elements of ones, then 16 of zeros: 16 elements from its
// (16-n)-th are a mask of n.
var window Mem

func windowOfMasks() {
	const ones = math.MaxUint64
	window = GLOBL("window", attr.RODATA|attr.NOPTR)
	for i, pair := range [16]uint64{0: ones, ones, ones, ones, ones, ones, ones, ones} {
		DATA(8*i, U64(pair))
	}
}

// signature is the kernel's type.
func (k kernel) signature() string {
	s := "(" + strings.Join(k.params, ", ") + ")"
	if k.returns != nil {
		s += " " + k.returns.kind
	}
	return s
}

// generate writes the kernel's function for one instruction set.
func (k kernel) generate(s isa) {
	TEXT(k.name+s.name, NOSPLIT, "func"+k.signature())
	Doc(k.name + s.name + " " + k.doc)
	Pragma("noescape")
	g := group{isa: s, returns: k.returns, base: map[string]reg.Register{}, at: GP64(), width: s.bytes}
	if k.returns != nil {
		g.start()
	}
	var end reg.Register // of the slices, in bytes
	for _, p := range k.params {
		switch name, kind, _ := strings.Cut(p, " "); {
		case kind == "[]float32":
			g.base[name] = Load(Param(name).Base(), GP64())
			if end == nil {
				end = Load(Param(name).Len(), GP64())
			}
		case strings.HasPrefix(kind, "*"):
			g.base[name] = Load(Param(name), GP64())
		}
	}
	SHLQ(Imm(2), end)
	g.loop(end, k.body)
	if k.returns != nil {
		g.finish()
	}
	VZEROUPPER()
	RET()
}

// loop runs body over whole groups, then over the rest under masks.
func (g *group) loop(end reg.Register, body func(g *group)) {
	whole := GP64()
	MOVQ(end, whole)
	ANDQ(I8(-64), whole)
	XORQ(g.at, g.at)
	JMP(LabelRef("test"))
	Label("group")
	for g.part = range 64 / g.width {
		body(g)
	}
	ADDQ(Imm(64), g.at)
	Label("test")
	CMPQ(g.at, whole)
	JLT(LabelRef("group"))

	CMPQ(g.at, end)
	JEQ(LabelRef("done"))
	masks := GP64()
	LEAQ(window.Offset(64), masks)
	ADDQ(g.at, masks)
	SUBQ(end, masks)
	for g.part = range 64 / g.width {
		g.loadMask(Mem{Base: masks, Disp: g.part * g.width})
		body(g)
	}
	Label("done")
}

// loadMask sets the mask of a part from a vector of ones and zeros.
func (g *group) loadMask(from Mem) {
	v := register(g.width)
	VMOVUPS(from, v)
	g.mask = v
	if g.isa == avx512 {
		k := K()
		VPMOVD2M(v, k)
		g.mask = k
	}
}

// start sets the lanes to their first value.
func (g *group) start() {
	parts := 16 * g.returns.bytes / g.bytes
	g.width = 64 / parts
	for range parts {
		if g.returns.start == 0 {
			g.acc = append(g.acc, g.zero())
		} else {
			g.acc = append(g.acc, g.number(g.returns.start))
		}
	}
}

// accumulate takes v into the lanes.
func (g *group) accumulate(v reg.VecVirtual) {
	acc := g.acc[g.part]
	if g.mask == nil {
		g.returns.op(acc, v, acc)
		return
	}
	g.blend(g.mask, g.apply(g.returns.op, v, acc), acc)
}

// finish joins the lanes in a halving tree, lane i and i+8, then 4, 2 and 1, and
// returns the one that is left.
func (g *group) finish() {
	op, acc := g.returns.op, g.acc
	for half := len(acc) / 2; half > 0; half /= 2 {
		for i := range half {
			op(acc[half+i], acc[i], acc[i])
		}
	}
	if g.isa == avx512 {
		high := YMM()
		VEXTRACTF64X4(Imm(1), acc[0], high)
		op(high, acc[0].AsY(), acc[0].AsY())
	}
	x, high := acc[0].AsX(), XMM()
	VEXTRACTF128(Imm(1), acc[0].AsY(), high)
	op(high, x, x)
	VPERMILPS(Imm(0b1110), x, high) // the upper 8 bytes
	op(high, x, x)
	to, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	if g.returns.bytes == 8 {
		VMOVSD(x, to.Addr)
		return
	}
	VMOVSHDUP(x, high)
	op(high, x, x)
	VMOVSS(x, to.Addr)
}
