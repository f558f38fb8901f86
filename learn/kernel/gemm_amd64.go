package kernel

// The blocked product, after Goto and van de Geijn: a block of B is packed into
// panels as wide as a tile, and some strips of A, as high as a tile, are packed
// together; each panel, now in the first cache, meets each of those strips.
// Blocking changes no result, so it follows the caches of the machine.

// scratch is an engine's memory for packed operands; it grows and is kept.
type scratch struct {
	a, b []float32
	edge [6 * 16]float32 // an AVX2 tile that reaches over the right edge
}

const (
	blockK = 256 // terms that a tile adds before it moves on
	strips = 4   // strips of A that are packed together
	// directRows is the number of rows of A below which packing B does not pay.
	directRows = 96
	floatBytes = 4
)

// tileSize is the size of the active variant's tile of C.
func tileSize() (rows, cols int) {
	if active == avx512 {
		return 12, 32
	}
	return 6, 16
}

// compute runs the product with the active variant on this goroutine.
func (p product) compute(s *scratch) {
	switch {
	case active == portable:
		p.portable()
	case p.a.Cols == 0 && !p.add:
		for i := range p.c.Rows {
			clear(p.c.Data[i*p.c.Stride:][:p.c.Cols])
		}
	case p.a.Cols > 0:
		p.blocked(s)
	}
}

// blocked computes the product block by block. Blocks of k are equally deep, and
// a multiple of what packing takes at a time.
func (p product) blocked(s *scratch) {
	const grain = 16
	blocks := (p.a.Cols + blockK - 1) / blockK
	depth := (p.a.Cols + blocks*grain - 1) / (blocks * grain) * grain
	width := columnsPerBlock()
	for j := 0; j < p.c.Cols; j += width {
		cols := min(width, p.c.Cols-j)
		for k := 0; k < p.a.Cols; k += depth {
			terms := min(depth, p.a.Cols-k)
			part := p
			part.c = p.c.part(0, j, p.c.Rows, cols)
			part.a = p.a.part(0, k, p.a.Rows, terms)
			part.b = p.b.part(k, j, terms, cols)
			part.add = p.add || k > 0
			part.block(s)
		}
	}
}

// columnsPerBlock is the number of columns of B that are packed at once: half of
// the second cache.
func columnsPerBlock() int { return max(256, secondCache/2/(blockK*floatBytes)&^31) }

// block computes the product of one block of B.
func (p product) block(s *scratch) {
	rows, cols := tileSize()
	depth, width := p.b.Rows, p.b.Cols
	direct := !p.bf16 && !p.b.Trans && p.c.Rows < directRows
	if direct {
		s.packB(p.b.part(0, width/cols*cols, depth, width%cols), cols, p.bf16)
	} else {
		s.packB(p.b, cols, p.bf16)
	}
	size := packedRows(depth)
	for i := 0; i < p.c.Rows; i += strips * rows {
		height := min(strips*rows, p.c.Rows-i)
		s.packA(p.a.part(i, 0, height, depth), rows, p.bf16)
		for n := 0; n < width; n += cols {
			right, rightRow := s.b, cols
			switch {
			case !direct:
				right = s.b[n*size:]
			case n+cols <= width:
				right, rightRow = p.b.Data[n:], p.b.Stride
			}
			t := tile{right: right, rightRow: uintptr(rightRow) * floatBytes, depth: depth, flags: p.flags()}
			for r := 0; r < height; r += rows {
				t.left = s.a[r*size:]
				t.compute(s, p.c.part(i+r, n, min(rows, height-r), min(cols, width-n)))
			}
		}
	}
}
