package kernel

import "unsafe"

// tile is what the micro-kernels of a tile of C read: a packed strip of A, a
// panel of B with rightRow bytes from row to row, and depth terms.
type tile struct {
	left, right []float32
	rightRow    uintptr
	depth       int
	flags       uint8
}

// Flags of a tile.
const (
	tileAdd   = 1 << iota // the chains start from what C holds
	tileFlush             // subnormals count as zeros
)

func (p product) flags() uint8 {
	flags := uint8(0)
	if p.add {
		flags |= tileAdd
	}
	if p.bf16 {
		flags |= tileFlush
	}
	return flags
}

// compute computes the tile c, of any height and width up to the full tile's.
func (t tile) compute(s *scratch, c Mat) {
	if t.flags&tileFlush != 0 {
		t.depth = packedRows(t.depth)
	}
	switch {
	case t.flags&tileFlush != 0 && dotBF16:
		t.depth /= 2
		t.dotAVX512(c)
	case active == avx512:
		t.fmaAVX512(c)
	case c.Cols == 16:
		t.fmaAVX2(c)
	default:
		edge := View(s.edge[:], c.Rows, 16, 16)
		for i := range c.Rows {
			copy(edge.Data[i*16:], c.Data[i*c.Stride:][:c.Cols])
		}
		t.fmaAVX2(edge)
		for i := range c.Rows {
			copy(c.Data[i*c.Stride:][:c.Cols], edge.Data[i*16:])
		}
	}
}

// fmaAVX512 covers the tile's height with the kernels of 12, 8, 4, 2 and 1 rows.
func (t tile) fmaAVX512(c Mat) {
	mask, cRow := uint32(1<<c.Cols-1), uintptr(c.Stride)*floatBytes
	a, b := unsafe.SliceData(t.left), unsafe.SliceData(t.right)
	for i, rows := 0, 0; i < c.Rows; i += rows {
		out, a := after(unsafe.SliceData(c.Data), i*c.Stride), after(a, i)
		switch rows = c.Rows - i; {
		case rows >= 12:
			rows = 12
			tile12AVX512(out, cRow, a, b, t.rightRow, t.depth, t.flags, mask)
		case rows >= 8:
			rows = 8
			tile8AVX512(out, cRow, a, b, t.rightRow, t.depth, t.flags, mask)
		case rows >= 4:
			rows = 4
			tile4AVX512(out, cRow, a, b, t.rightRow, t.depth, t.flags, mask)
		case rows >= 2:
			rows = 2
			tile2AVX512(out, cRow, a, b, t.rightRow, t.depth, t.flags, mask)
		default:
			tile1AVX512(out, cRow, a, b, t.rightRow, t.depth, t.flags, mask)
		}
	}
}

// dotAVX512 is fmaAVX512 with the dot product of pairs of bfloat16s.
func (t tile) dotAVX512(c Mat) {
	mask, cRow := uint32(1<<c.Cols-1), uintptr(c.Stride)*floatBytes
	a, b := unsafe.SliceData(t.left), unsafe.SliceData(t.right)
	for i, rows := 0, 0; i < c.Rows; i += rows {
		out, a := after(unsafe.SliceData(c.Data), i*c.Stride), after(a, i)
		switch rows = c.Rows - i; {
		case rows >= 12:
			rows = 12
			dot12AVX512(out, cRow, a, b, t.rightRow, t.depth, t.flags, mask)
		case rows >= 8:
			rows = 8
			dot8AVX512(out, cRow, a, b, t.rightRow, t.depth, t.flags, mask)
		case rows >= 4:
			rows = 4
			dot4AVX512(out, cRow, a, b, t.rightRow, t.depth, t.flags, mask)
		case rows >= 2:
			rows = 2
			dot2AVX512(out, cRow, a, b, t.rightRow, t.depth, t.flags, mask)
		default:
			dot1AVX512(out, cRow, a, b, t.rightRow, t.depth, t.flags, mask)
		}
	}
}

// fmaAVX2 covers the tile's height with the kernels of 6, 4, 2 and 1 rows.
func (t tile) fmaAVX2(c Mat) {
	cRow := uintptr(c.Stride) * floatBytes
	a, b := unsafe.SliceData(t.left), unsafe.SliceData(t.right)
	for i, rows := 0, 0; i < c.Rows; i += rows {
		out, a := after(unsafe.SliceData(c.Data), i*c.Stride), after(a, i)
		switch rows = c.Rows - i; {
		case rows >= 6:
			rows = 6
			tile6AVX2(out, cRow, a, b, t.rightRow, t.depth, t.flags)
		case rows >= 4:
			rows = 4
			tile4AVX2(out, cRow, a, b, t.rightRow, t.depth, t.flags)
		case rows >= 2:
			rows = 2
			tile2AVX2(out, cRow, a, b, t.rightRow, t.depth, t.flags)
		default:
			tile1AVX2(out, cRow, a, b, t.rightRow, t.depth, t.flags)
		}
	}
}

// fmaLoop runs fused multiply-adds of the active variant and returns their
// floating-point operations.
func fmaLoop(rounds int) float64 {
	switch active {
	case avx512:
		peakAVX512(rounds)
		return float64(rounds) * 24 * 16 * 2
	case avx2:
		peakAVX2(rounds)
		return float64(rounds) * 12 * 8 * 2
	}
	return portableFMALoop(rounds)
}
