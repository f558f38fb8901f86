package kernel

// Rope holds the cosines and sines of rotary positions.
type Rope struct {
	half     int       // pairs per head
	cos, sin []float32 // [T, half]
}

// NewRope computes the tables for T positions and an even headDim: the angle of
// pair j at position t is t * theta^(-2j/headDim), in float64, rounded to
// float32 after Cos and Sin.
func NewRope(T, headDim int, theta float64) *Rope {
	half := headDim / 2
	r := &Rope{half, make([]float32, T*half), make([]float32, T*half)}
	for j := range half {
		freq := Pow(theta, -float64(2*j)/float64(headDim))
		for t := range T {
			angle := float64(float64(t) * freq)
			r.cos[t*half+j] = float32(Cos(angle))
			r.sin[t*half+j] = float32(Sin(angle))
		}
	}
	return r
}

// Rotate turns the pairs (x[j], x[j+headDim/2]) of every head by the angles of
// the row's position, row modulo T, and multiplies by scale. x is
// [rows, heads*headDim], in place. inverse is the gradient: it multiplies first,
// then turns back.
func (e *Engine) Rotate(x []float32, rows, T, heads int, r *Rope, scale float32, inverse bool) {
	width := heads * 2 * r.half
	e.rows(rowArgs{run: rotateRows, n: rows, grain: 1, y: x[:rows*width],
		T: T, heads: heads, rope: r, scale: scale, inverse: inverse}, width)
}

func rotateRows(a *rowArgs, from, to int) {
	half := a.rope.half
	for r := from; r < to; r++ {
		t := r % a.T
		cos, sin := a.rope.cos[t*half:][:half], a.rope.sin[t*half:][:half]
		for h := range a.heads {
			head := a.y[(r*a.heads+h)*2*half:][:2*half]
			x, y := head[:half], head[half:]
			if a.inverse { // the same rotation with the pair exchanged
				rotate(y, x, cos, sin, a.scale, 1)
			} else {
				rotate(x, y, cos, sin, 1, a.scale)
			}
		}
	}
}
