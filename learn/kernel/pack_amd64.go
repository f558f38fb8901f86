package kernel

import "unsafe"

// packedRows is the number of rows that a packed block of k terms takes: BF16
// needs pairs.
func packedRows(k int) int { return k + k&1 }

// packA packs a into strips of the given number of rows, one after the other: in
// a strip, column after column. What is missing of the last strip stays unset.
func (s *scratch) packA(a Mat, rows int, bf16 bool) {
	size := rows * packedRows(a.Cols)
	whole := a.Rows / rows
	if a.Trans && whole > 0 {
		copyStrips(&s.a[0], size, a, whole)
	}
	for i := 0; i < a.Rows; i += rows {
		strip := s.a[i/rows*size:][:size]
		switch part := a.part(i, 0, min(rows, a.Rows-i), a.Cols); {
		case part.Rows < rows:
			packEdge(strip, part.T(), rows)
		case !a.Trans:
			packAcross(strip, part.T(), rows)
		}
		if bf16 {
			roundPairs(strip, rows, a.Cols)
		}
	}
}

// panels returns the number of panels of a block of B.
func (p product) panels() int {
	_, cols := tileSize()
	return (p.b.Cols + cols - 1) / cols
}

// packB packs the panels [from, to) of a block of B: in a panel, row after row.
// What is missing of the last panel is zero. Panels that are read where they lie
// are left out.
func (p product) packB(out []float32, from, to int) {
	_, cols := tileSize()
	b, size := p.b, cols*packedRows(p.b.Rows)
	whole := b.Cols / cols
	if p.direct() {
		from = max(from, whole)
	}
	for n := from; n < min(to, whole) && !b.Trans; n += together {
		parts := min(together, min(to, whole)-n)
		copyPanels(&out[n*size], size, b.part(0, n*cols, b.Rows, parts*cols), parts)
	}
	for n := from; n < to; n++ {
		panel := out[n*size:][:size]
		switch part := b.part(0, n*cols, b.Rows, min(cols, b.Cols-n*cols)); {
		case part.Cols < cols:
			packEdge(panel, part, cols)
		case b.Trans:
			packAcross(panel, part, cols)
		}
		if p.bf16 {
			roundPairs(panel, cols, b.Rows)
		}
	}
}

// packEdge packs fewer than width columns of b, and zeros for the others.
func packEdge(to []float32, b Mat, width int) {
	row, col := b.steps()
	for k := range b.Rows {
		out := to[k*width:][:width]
		for j := range b.Cols {
			out[j] = b.Data[k*row+j*col]
		}
		clear(out[b.Cols:])
	}
}

// packAcross packs width columns that are stored as rows.
func packAcross(to []float32, b Mat, width int) {
	square := 16
	if active == avx2 {
		square = 8
	}
	whole := b.Rows / square * square
	if whole > 0 {
		transposePart(&to[0], width, b, whole/square)
	}
	for k := whole; k < b.Rows; k++ {
		for j := range width {
			to[k*width+j] = b.Data[j*b.Stride+k]
		}
	}
}

// transposePart transposes blocks of as many rows as a vector has lanes.
func transposePart(to *float32, width int, b Mat, blocks int) {
	toRow, from, fromRow := uintptr(width)*floatBytes, unsafe.SliceData(b.Data), uintptr(b.Stride)*floatBytes
	switch width {
	case 12:
		transpose12AVX512(to, toRow, from, fromRow, blocks)
	case 32:
		transpose16AVX512(to, toRow, from, fromRow, blocks)
		transpose16AVX512(after(to, 16), toRow, &b.Data[16*b.Stride], fromRow, blocks)
	case 6:
		transpose6AVX2(to, toRow, from, fromRow, blocks)
	case 16:
		transpose8AVX2(to, toRow, from, fromRow, blocks)
		transpose8AVX2(after(to, 8), toRow, &b.Data[8*b.Stride], fromRow, blocks)
	}
}

// copyStrips packs whole strips of a transposed A.
func copyStrips(to *float32, size int, a Mat, parts int) {
	toPart, from, fromRow := uintptr(size)*floatBytes, unsafe.SliceData(a.Data), uintptr(a.Stride)*floatBytes
	if active == avx512 {
		copy12AVX512(to, toPart, from, fromRow, a.Cols, parts)
	} else {
		copy6AVX2(to, toPart, from, fromRow, a.Cols, parts)
	}
}

// copyPanels packs whole panels of a B that is not transposed.
func copyPanels(to *float32, size int, b Mat, parts int) {
	toPart, from, fromRow := uintptr(size)*floatBytes, unsafe.SliceData(b.Data), uintptr(b.Stride)*floatBytes
	if active == avx512 {
		copy32AVX512(to, toPart, from, fromRow, b.Rows, parts)
	} else {
		copy16AVX2(to, toPart, from, fromRow, b.Rows, parts)
	}
}

// roundPairs rounds k packed rows to bfloat16, as the active tile wants them.
func roundPairs(x []float32, width, k int) {
	if k&1 == 1 {
		clear(x[k*width:][:width])
	}
	pairs := (k + 1) / 2
	switch {
	case width == 12 && dotBF16:
		joinBF16x12AVX512(&x[0], pairs)
	case width == 32 && dotBF16:
		joinBF16x32AVX512(&x[0], pairs)
	case width == 12:
		swapBF16x12AVX512(&x[0], pairs)
	case width == 32:
		swapBF16x32AVX512(&x[0], pairs)
	case width == 6:
		swapBF16x6AVX2(&x[0], pairs)
	case width == 16:
		swapBF16x16AVX2(&x[0], pairs)
	}
}

// after returns the address n elements behind x.
func after(x *float32, n int) *float32 {
	return (*float32)(unsafe.Add(unsafe.Pointer(x), n*floatBytes))
}

// aligned returns a new slice of n elements that starts on a cache line.
func aligned(n int) []float32 {
	const line = 64
	x := make([]float32, n+line/floatBytes)
	skip := (line - uintptr(unsafe.Pointer(&x[0]))%line) % line / floatBytes
	return x[skip:][:n:n]
}
