package kernel

// SiLUMul sets u = silu(g) * up, silu(x) = x / (1 + e^-x).
func (e *Engine) SiLUMul(u, g, up []float32) {
	n := len(u)
	e.rows(rowArgs{run: siluMulPart, n: n, grain: lanes, y: u, x: g[:n], p: up[:n]}, 1)
}

func siluMulPart(a *rowArgs, from, to int) {
	mid := from + whole(to-from)
	siluMul(a.y[from:mid], a.x[from:mid], a.p[from:mid])
	siluMulPortable(a.y[mid:to], a.x[mid:to], a.p[mid:to])
}

// SiLUMulBackward sets dg and dup, the gradients of g and up in SiLUMul, given
// that of u. dg or dup may be du itself.
func (e *Engine) SiLUMulBackward(dg, dup, du, g, up []float32) {
	n := len(du)
	e.rows(rowArgs{run: siluMulBackPart, n: n, grain: lanes,
		y: dg[:n], z: dup[:n], w: du, x: g[:n], p: up[:n]}, 1)
}

func siluMulBackPart(a *rowArgs, from, to int) {
	mid := from + whole(to-from)
	siluMulBack(a.y[from:mid], a.z[from:mid], a.w[from:mid], a.x[from:mid], a.p[from:mid])
	siluMulBackPortable(a.y[mid:to], a.z[mid:to], a.w[mid:to], a.x[mid:to], a.p[mid:to])
}

// SiLU sets y = silu(x).
func (e *Engine) SiLU(y, x []float32) {
	e.rows(rowArgs{run: siluPart, n: len(x), grain: lanes, y: y[:len(x)], x: x}, 1)
}

func siluPart(a *rowArgs, from, to int) {
	mid := from + whole(to-from)
	silu(a.y[from:mid], a.x[from:mid])
	siluPortable(a.y[mid:to], a.x[mid:to])
}

// SiLUBackward sets dx = dy * silu'(x).
func (e *Engine) SiLUBackward(dx, dy, x []float32) {
	n := len(x)
	e.rows(rowArgs{run: siluBackPart, n: n, grain: lanes, y: dx[:n], w: dy[:n], x: x}, 1)
}

func siluBackPart(a *rowArgs, from, to int) {
	siluBackPortable(a.y[from:to], a.w[from:to], a.x[from:to])
}

// ReLU sets y = x where x > 0, else 0.
func (e *Engine) ReLU(y, x []float32) {
	y = y[:len(x)]
	for i, v := range x {
		if v <= 0 {
			v = 0
		}
		y[i] = v
	}
}

// ReLUBackward sets dx = dy where x > 0, else 0.
func (e *Engine) ReLUBackward(dx, dy, x []float32) {
	dx, dy = dx[:len(x)], dy[:len(x)]
	for i, v := range x {
		d := dy[i]
		if v <= 0 {
			d = 0
		}
		dx[i] = d
	}
}
