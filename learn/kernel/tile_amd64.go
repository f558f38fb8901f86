package kernel

import "unsafe"

// tiles computes one tile of C, of any height and width up to the full tile's,
// from depth terms; add tells whether
// the chains start from what C holds.
func (s *scratch) tiles(c Mat, a, b operand, depth int, add bool) {
	if active == avx512 {
		tilesAVX512(c, a, b, depth, add)
		return
	}
	if c.Cols == 16 {
		tilesAVX2(c, a, b, depth, add)
		return
	}
	edge := View(s.edge[:], c.Rows, 16, 16)
	for i := range c.Rows {
		copy(edge.Data[i*16:], c.Data[i*c.Stride:][:c.Cols])
	}
	tilesAVX2(edge, a, b, depth, add)
	for i := range c.Rows {
		copy(c.Data[i*c.Stride:][:c.Cols], edge.Data[i*16:])
	}
}

// tilesAVX512 covers the tile's height with the kernels of 12, 8, 4, 2 and 1 rows.
func tilesAVX512(c Mat, a, b operand, depth int, add bool) {
	mask := uint32(1<<c.Cols - 1)
	cRow := uintptr(c.Stride) * floatBytes
	out := unsafe.SliceData(c.Data)
	for i := 0; i < c.Rows; {
		rows := 12
		switch left := c.Rows - i; {
		case left >= 12:
			tile12AVX512(out, cRow, a.data, a.row, a.col, b.data, b.row, depth, add, mask)
		case left >= 8:
			rows = 8
			tile8AVX512(out, cRow, a.data, a.row, a.col, b.data, b.row, depth, add, mask)
		case left >= 4:
			rows = 4
			tile4AVX512(out, cRow, a.data, a.row, a.col, b.data, b.row, depth, add, mask)
		case left >= 2:
			rows = 2
			tile2AVX512(out, cRow, a.data, a.row, a.col, b.data, b.row, depth, add, mask)
		default:
			rows = 1
			tile1AVX512(out, cRow, a.data, a.row, a.col, b.data, b.row, depth, add, mask)
		}
		if i += rows; i < c.Rows {
			a = a.skip(rows, 0)
			out = (*float32)(unsafe.Add(unsafe.Pointer(out), uintptr(rows)*cRow))
		}
	}
}

// tilesAVX2 covers the tile's height with the kernels of 6, 4, 2 and 1 rows.
func tilesAVX2(c Mat, a, b operand, depth int, add bool) {
	cRow := uintptr(c.Stride) * floatBytes
	out := unsafe.SliceData(c.Data)
	for i := 0; i < c.Rows; {
		rows := 6
		switch left := c.Rows - i; {
		case left >= 6:
			tile6AVX2(out, cRow, a.data, a.row, a.col, b.data, b.row, depth, add)
		case left >= 4:
			rows = 4
			tile4AVX2(out, cRow, a.data, a.row, a.col, b.data, b.row, depth, add)
		case left >= 2:
			rows = 2
			tile2AVX2(out, cRow, a.data, a.row, a.col, b.data, b.row, depth, add)
		default:
			rows = 1
			tile1AVX2(out, cRow, a.data, a.row, a.col, b.data, b.row, depth, add)
		}
		if i += rows; i < c.Rows {
			a = a.skip(rows, 0)
			out = (*float32)(unsafe.Add(unsafe.Pointer(out), uintptr(rows)*cRow))
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
