package kernel

// SiLUMul sets u = silu(g) * up, silu(x) = x / (1 + e^-x).
func (e *Engine) SiLUMul(u, g, up []float32) {
	n := len(u)
	e.rows(rowArgs{run: siluMulPart, n: n, grain: lanes, y: u, x: g[:n], p: up[:n]}, 1)
}

func siluMulPart(a *rowArgs, from, to int) {
	siluMul(a.y[from:to], a.x[from:to], a.p[from:to])
}

// SiLUMulBackward sets dg and dup, the gradients of g and up in SiLUMul, given
// that of u. dg or dup may be du itself.
func (e *Engine) SiLUMulBackward(dg, dup, du, g, up []float32) {
	n := len(du)
	e.rows(rowArgs{run: siluMulBackPart, n: n, grain: lanes,
		y: dg[:n], z: dup[:n], w: du, x: g[:n], p: up[:n]}, 1)
}

func siluMulBackPart(a *rowArgs, from, to int) {
	siluMulBack(a.y[from:to], a.z[from:to], a.w[from:to], a.x[from:to], a.p[from:to])
}

// SiLU sets y = silu(x).
func (e *Engine) SiLU(y, x []float32) {
	e.rows(rowArgs{run: siluPart, n: len(x), grain: lanes, y: y[:len(x)], x: x}, 1)
}

func siluPart(a *rowArgs, from, to int) {
	silu(a.y[from:to], a.x[from:to])
}

// SiLUBackward sets dx = dy * silu'(x).
func (e *Engine) SiLUBackward(dx, dy, x []float32) {
	n := len(x)
	e.rows(rowArgs{run: siluBackPart, n: n, grain: lanes, y: dx[:n], w: dy[:n], x: x}, 1)
}

func siluBackPart(a *rowArgs, from, to int) {
	siluBack(a.y[from:to], a.w[from:to], a.x[from:to])
}

// ReLU sets y = 0 where x <= 0, else x.
func (e *Engine) ReLU(y, x []float32) {
	e.rows(rowArgs{run: reluPart, n: len(x), grain: lanes, y: y[:len(x)], x: x}, 1)
}

func reluPart(a *rowArgs, from, to int) {
	relu(a.y[from:to], a.x[from:to])
}

// ReLUBackward sets dx = 0 where x <= 0, else dy.
func (e *Engine) ReLUBackward(dx, dy, x []float32) {
	n := len(x)
	e.rows(rowArgs{run: reluBackPart, n: n, grain: lanes, y: dx[:n], w: dy[:n], x: x}, 1)
}

func reluBackPart(a *rowArgs, from, to int) {
	reluBack(a.y[from:to], a.w[from:to], a.x[from:to])
}
