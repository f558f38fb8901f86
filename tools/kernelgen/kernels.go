package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

// kernels are all element-wise kernels. Their portable twins, of the same names
// in learn/kernel/portable.go, define the results; keep the two side by side.
var kernels = []kernel{
	{"rowMax", "returns the largest x that is not NaN, or -Inf.",
		[]string{"x []float32"}, largest, func(g *group) {
			g.accumulate(g.load("x"))
		}},
	{"expSum", "sets x = e^(x-shift) and returns its sum.",
		[]string{"x []float32", "shift float32"}, sum, func(g *group) {
			v := g.exp(g.sub(g.load("x"), g.scalar("shift")))
			g.store(v, "x")
			g.accumulate(v)
		}},
	{"sumExp", "returns the sum of e^(x-shift).",
		[]string{"x []float32", "shift float32"}, sum, func(g *group) {
			g.accumulate(g.exp(g.sub(g.load("x"), g.scalar("shift"))))
		}},
	{"expScale", "sets x = e^(x-shift) * s.",
		[]string{"x []float32", "shift float32", "s float32"}, nil, func(g *group) {
			v := g.exp(g.sub(g.load("x"), g.scalar("shift")))
			g.store(g.mul(v, g.scalar("s")), "x")
		}},
	{"scale", "sets x = x * s.",
		[]string{"x []float32", "s float32"}, nil, func(g *group) {
			g.store(g.mul(g.load("x"), g.scalar("s")), "x")
		}},
	{"add", "sets y = y + x.", []string{"y []float32", "x []float32"}, nil, func(g *group) {
		g.store(g.add(g.load("y"), g.load("x")), "y")
	}},
	{"sub", "sets y = y - x.", []string{"y []float32", "x []float32"}, nil, func(g *group) {
		g.store(g.sub(g.load("y"), g.load("x")), "y")
	}},
	{"axpy", "sets y = y + x*s.",
		[]string{"y []float32", "x []float32", "s float32"}, nil, func(g *group) {
			g.store(g.add(g.load("y"), g.mul(g.load("x"), g.scalar("s"))), "y")
		}},
	{"dot", "returns the sum of x*y.",
		[]string{"x []float32", "y []float32"}, sum, func(g *group) {
			g.accumulate(g.mul(g.load("x"), g.load("y")))
		}},
	{"dot3", "returns the sum of (x*y)*z.",
		[]string{"x []float32", "y []float32", "z []float32"}, sum, func(g *group) {
			g.accumulate(g.mul(g.mul(g.load("x"), g.load("y")), g.load("z")))
		}},
	{"dot64", "returns the sum of x*y in float64, where a product is exact.",
		[]string{"x []float32", "y []float32"}, sum64, func(g *group) {
			VFMADD231PD(g.load64("x"), g.load64("y"), g.acc[g.part]) // beyond the end 0*0
		}},
	{"notFinite", "returns NaN if any x is NaN or infinite, else 0.",
		[]string{"x []float32"}, sum, func(g *group) {
			x := g.load("x")
			g.accumulate(g.sub(x, x)) // +0 or NaN
		}},
	{"norm", "sets y = (x*inv)*w.",
		[]string{"y []float32", "x []float32", "w []float32", "inv float32"}, nil, func(g *group) {
			g.store(g.mul(g.mul(g.load("x"), g.scalar("inv")), g.load("w")), "y")
		}},
	{"normBack", "adds (dy*w)*inv - x*c to dx.",
		[]string{"dx []float32", "dy []float32", "w []float32", "x []float32", "inv float32", "c float32"}, nil, func(g *group) {
			direct := g.mul(g.mul(g.load("dy"), g.load("w")), g.scalar("inv"))
			d := g.sub(direct, g.mul(g.load("x"), g.scalar("c")))
			g.store(g.add(g.load("dx"), d), "dx")
		}},
	{"normWeight", "adds dy*(x*inv) to dw.",
		[]string{"dw []float32", "dy []float32", "x []float32", "inv float32"}, nil, func(g *group) {
			d := g.mul(g.load("dy"), g.mul(g.load("x"), g.scalar("inv")))
			g.store(g.add(g.load("dw"), d), "dw")
		}},
	{"silu", "sets y = x sigmoid(x).", []string{"y []float32", "x []float32"}, nil, func(g *group) {
		x := g.load("x")
		g.store(g.mul(x, g.sigmoid(x)), "y")
	}},
	{"siluBack", "sets dx = dy silu'(x).",
		[]string{"dx []float32", "dy []float32", "x []float32"}, nil, func(g *group) {
			x := g.load("x")
			g.store(g.mul(g.load("dy"), g.siluSlope(x, g.sigmoid(x))), "dx")
		}},
	{"relu", "sets y = x, or 0 where x <= 0.", []string{"y []float32", "x []float32"}, nil, func(g *group) {
		x := g.load("x")
		g.choose(x, x, lessOrEqual, 0, g.zero())
		g.store(x, "y")
	}},
	{"reluBack", "sets dx = dy, or 0 where x <= 0.",
		[]string{"dx []float32", "dy []float32", "x []float32"}, nil, func(g *group) {
			d := g.load("dy")
			g.choose(d, g.load("x"), lessOrEqual, 0, g.zero())
			g.store(d, "dx")
		}},
	{"siluMul", "sets u = silu(g) * up.",
		[]string{"u []float32", "g []float32", "up []float32"}, nil, func(g *group) {
			x := g.load("g")
			g.store(g.mul(g.mul(x, g.sigmoid(x)), g.load("up")), "u")
		}},
	{"siluMulBack", "sets the gradients of g and up, given that of silu(g) * up.",
		[]string{"dg []float32", "dup []float32", "du []float32", "g []float32", "up []float32"}, nil, func(g *group) {
			x := g.load("g")
			s := g.sigmoid(x)
			d, up := g.load("du"), g.load("up")
			g.store(g.mul(d, g.mul(x, s)), "dup")
			g.store(g.mul(g.mul(d, up), g.siluSlope(x, s)), "dg")
		}},
	{"softmaxBack", "sets s to p = e^(s-lse), and dp = p*(dp-dot).",
		[]string{"dp []float32", "s []float32", "lse float32", "dot float32"}, nil, func(g *group) {
			p := g.exp(g.sub(g.load("s"), g.scalar("lse")))
			d := g.sub(g.load("dp"), g.scalar("dot"))
			g.store(p, "s")
			g.store(g.mul(p, d), "dp")
		}},
	{"rotate", "turns the pairs (a, b), multiplied by before, and multiplies them by after.",
		[]string{"a []float32", "b []float32", "cos []float32", "sin []float32", "before float32", "after float32"}, nil, rotate},
	{"adamW", "takes one optimizer step.",
		[]string{"w []float32", "g []float32", "m []float32", "v []float32", "c *[10]float32"}, nil, adamW},
}

func rotate(g *group) {
	before, after := g.scalar("before"), g.scalar("after")
	cos, sin := g.load("cos"), g.load("sin")
	a, b := g.mul(g.load("a"), before), g.mul(g.load("b"), before)
	g.store(g.mul(g.sub(g.mul(a, cos), g.mul(b, sin)), after), "a")
	g.store(g.mul(g.add(g.mul(b, cos), g.mul(a, sin)), after), "b")
}

// adamW reads the coefficients in the order of AdamWCoef's fields.
func adamW(g *group) {
	const grad, beta1, rest1, beta2, rest2, correct1, correct2, keep, lr, eps = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
	field := func(i int) reg.VecVirtual { return g.element("c", i) }
	d := g.mul(g.load("g"), field(grad))
	m := g.add(g.mul(field(beta1), g.load("m")), g.mul(field(rest1), d))
	v := g.add(g.mul(field(beta2), g.load("v")), g.mul(g.mul(field(rest2), d), d))
	g.store(m, "m")
	g.store(v, "v")
	root := g.add(g.sqrt(g.mul(v, field(correct2))), field(eps))
	step := g.mul(field(lr), g.div(g.mul(m, field(correct1)), root))
	g.store(g.sub(g.mul(g.load("w"), field(keep)), step), "w")
}
