package kernel

import "unsafe"

// tile is what a micro-kernel works on: a tile of C, of any height and width up
// to the full tile's, a packed strip of A, and a panel of B. Strides are in
// elements.
type tile struct {
	c, left, right       *float32
	next                 *float32 // the tile of C that follows, to be fetched
	cStride, rightStride int
	rows, cols, depth    int
	add, bf16            bool
}

// Flags of a micro-kernel.
const (
	tileAdd   = 1 << iota // the chains start from what C holds
	tileFlush             // subnormals count as zeros
)

// compute computes the tile.
func (t *tile) compute(s *scratch) {
	switch {
	case t.bf16 && dotBF16:
		t.dotAVX512()
	case active == avx512:
		t.fmaAVX512()
	case t.cols == 16:
		t.fmaAVX2(t.c, t.cStride)
	default:
		edge := s.edge[:t.rows*16]
		c := unsafe.Slice(t.c, (t.rows-1)*t.cStride+t.cols)
		for i := range t.rows {
			copy(edge[i*16:], c[i*t.cStride:][:t.cols])
		}
		t.fmaAVX2(&edge[0], 16)
		for i := range t.rows {
			copy(c[i*t.cStride:][:t.cols], edge[i*16:])
		}
	}
}

// terms returns the number of rows of packed operands, and the kernel's flags.
func (t *tile) terms() (depth int, flags uint8) {
	if t.add {
		flags = tileAdd
	}
	if t.bf16 {
		return packedRows(t.depth), flags | tileFlush
	}
	return t.depth, flags
}

// fmaAVX512 covers the tile's height with the kernels of 12, 8, 4, 2 and 1 rows.
func (t *tile) fmaAVX512() {
	depth, flags := t.terms()
	mask, cRow, bRow := uint32(1<<t.cols-1), uintptr(t.cStride)*floatBytes, uintptr(t.rightStride)*floatBytes
	for i, rows := 0, 0; i < t.rows; i += rows {
		c, next, a := after(t.c, i*t.cStride), after(t.next, i*t.cStride), after(t.left, i)
		switch rows = t.rows - i; {
		case rows >= 12:
			rows = 12
			tile12AVX512(c, next, cRow, a, t.right, bRow, depth, flags, mask)
		case rows >= 8:
			rows = 8
			tile8AVX512(c, next, cRow, a, t.right, bRow, depth, flags, mask)
		case rows >= 4:
			rows = 4
			tile4AVX512(c, next, cRow, a, t.right, bRow, depth, flags, mask)
		case rows >= 2:
			rows = 2
			tile2AVX512(c, next, cRow, a, t.right, bRow, depth, flags, mask)
		default:
			tile1AVX512(c, next, cRow, a, t.right, bRow, depth, flags, mask)
		}
	}
}

// dotAVX512 is fmaAVX512 with the dot product of pairs of bfloat16s.
func (t *tile) dotAVX512() {
	depth, flags := t.terms()
	pairs := depth / 2
	mask, cRow, bRow := uint32(1<<t.cols-1), uintptr(t.cStride)*floatBytes, uintptr(t.rightStride)*floatBytes
	for i, rows := 0, 0; i < t.rows; i += rows {
		c, next, a := after(t.c, i*t.cStride), after(t.next, i*t.cStride), after(t.left, i)
		switch rows = t.rows - i; {
		case rows >= 12:
			rows = 12
			dot12AVX512(c, next, cRow, a, t.right, bRow, pairs, flags, mask)
		case rows >= 8:
			rows = 8
			dot8AVX512(c, next, cRow, a, t.right, bRow, pairs, flags, mask)
		case rows >= 4:
			rows = 4
			dot4AVX512(c, next, cRow, a, t.right, bRow, pairs, flags, mask)
		case rows >= 2:
			rows = 2
			dot2AVX512(c, next, cRow, a, t.right, bRow, pairs, flags, mask)
		default:
			dot1AVX512(c, next, cRow, a, t.right, bRow, pairs, flags, mask)
		}
	}
}

// fmaAVX2 covers the tile's height with the kernels of 6, 4, 2 and 1 rows.
func (t *tile) fmaAVX2(to *float32, stride int) {
	depth, flags := t.terms()
	cRow, bRow := uintptr(stride)*floatBytes, uintptr(t.rightStride)*floatBytes
	for i, rows := 0, 0; i < t.rows; i += rows {
		c, next, a := after(to, i*stride), after(t.next, i*stride), after(t.left, i)
		switch rows = t.rows - i; {
		case rows >= 6:
			rows = 6
			tile6AVX2(c, next, cRow, a, t.right, bRow, depth, flags)
		case rows >= 4:
			rows = 4
			tile4AVX2(c, next, cRow, a, t.right, bRow, depth, flags)
		case rows >= 2:
			rows = 2
			tile2AVX2(c, next, cRow, a, t.right, bRow, depth, flags)
		default:
			tile1AVX2(c, next, cRow, a, t.right, bRow, depth, flags)
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
