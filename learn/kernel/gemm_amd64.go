package kernel

import "unsafe"

// The blocked product. For each k-block and each block of columns, B is packed
// into panels as wide as a tile; then strip after strip of A's rows meets every
// panel in the micro-kernel. Blocking by rows and columns changes no result.

// scratch is an engine's memory for packed operands; it grows and is kept.
type scratch struct {
	a, b []float32
	edge [6 * 16]float32 // an AVX2 tile that reaches over the right edge
}

const (
	blockK = 512 // terms that a tile adds before it moves on
	blockN = 512 // columns of B packed at once: a megabyte, about the L2 cache
	// directRows is the number of rows of A below which packing B does not pay.
	directRows = 48
	floatBytes = 4
)

// operand is a block of A or B as the micro-kernel reads it: element (i, j) is
// at data + i*row + j*col, in bytes.
type operand struct {
	data     *float32
	row, col uintptr
}

// direct reads a block in place.
func direct(m Mat) operand {
	row, col := m.steps()
	return operand{unsafe.SliceData(m.Data), uintptr(row) * floatBytes, uintptr(col) * floatBytes}
}

// skip returns the operand from element (i, j) on.
func (o operand) skip(i, j int) operand {
	o.data = (*float32)(unsafe.Add(unsafe.Pointer(o.data), uintptr(i)*o.row+uintptr(j)*o.col))
	return o
}

// compute runs the product with the active variant on this goroutine.
func (p product) compute(s *scratch) {
	switch {
	case active == portable || p.bf16:
		p.portable()
	case p.a.Cols == 0 && p.add:
	case p.a.Cols == 0:
		for i := range p.c.Rows {
			clear(p.c.Data[i*p.c.Stride:][:p.c.Cols])
		}
	case active == avx512:
		p.blocked(s, 12, 32)
	default:
		p.blocked(s, 6, 16)
	}
}

// blocked computes the product in tiles of rows x cols.
func (p product) blocked(s *scratch, rows, cols int) {
	for k := 0; k < p.a.Cols; k += blockK {
		depth := min(blockK, p.a.Cols-k)
		for j := 0; j < p.c.Cols; j += blockN {
			width := min(blockN, p.c.Cols-j)
			block := product{
				c: p.c.part(0, j, p.c.Rows, width),
				a: p.a.part(0, k, p.a.Rows, depth),
				b: p.b.part(k, j, depth, width),
			}
			block.strips(s, rows, cols, p.add || k > 0)
		}
	}
}

// strips computes one block, strip of rows after strip of rows; add tells whether
// c holds earlier k-blocks.
func (p product) strips(s *scratch, rows, cols int, add bool) {
	depth, width := p.b.Rows, p.b.Cols
	packed := p.b.Trans || p.c.Rows >= directRows || active == avx2
	if packed {
		s.packB(p.b, cols)
	}
	for i := 0; i < p.c.Rows; i += rows {
		height := min(rows, p.c.Rows-i)
		left := s.left(p.a, i, height, rows, width > 3*cols)
		for n := 0; n < width; n += cols {
			right := operand{row: uintptr(cols) * floatBytes}
			if packed {
				right.data = &s.b[n*depth]
			} else {
				right = direct(p.b).skip(0, n)
			}
			s.tiles(p.c.part(i, n, height, min(cols, width-n)), left, right, depth, add)
		}
	}
}

// left returns rows [i, i+height) of A: packed if they lie unfavourably and
// enough tiles use them, else in place.
func (s *scratch) left(a Mat, i, height, rows int, often bool) operand {
	const apart = 1024 // rows that many floats apart compete for the same cache lines
	switch {
	case often && a.Trans:
		return s.strip(a, i, rows)
	case often && a.Stride%apart == 0:
		return s.copyRows(a.part(i, 0, height, a.Cols))
	}
	return direct(a.part(i, 0, height, a.Cols))
}

// copyRows returns a strip of A, copied to where its rows do not compete.
func (s *scratch) copyRows(a Mat) operand {
	const stride = blockK + 16
	s.a = grow(s.a, a.Rows*stride)
	for r := range a.Rows {
		copy(s.a[r*stride:][:a.Cols], a.Data[r*a.Stride:])
	}
	return operand{&s.a[0], stride * floatBytes, floatBytes}
}

// strip returns rows [i, i+rows) of a transposed A, packed column after column.
// It packs several strips at once, because they share cache lines.
func (s *scratch) strip(a Mat, i, rows int) operand {
	const together = 8
	size := rows * a.Cols
	nth := i / rows % together
	if nth == 0 {
		s.a = grow(s.a, together*size)
		height := min(together*rows, a.Rows-i)
		for k := range a.Cols {
			from := a.Data[k*a.Stride+i:][:height]
			for to := s.a[k*rows:]; len(from) > 0; to = to[min(size, len(to)):] {
				if len(from) >= 12 && rows == 12 {
					*(*[12]float32)(to) = *(*[12]float32)(from)
				} else {
					copy(to[:rows], from)
				}
				from = from[min(rows, len(from)):]
			}
		}
	}
	return operand{&s.a[nth*size], floatBytes, uintptr(rows) * floatBytes}
}

// packB packs b into panels of cols columns, row after row, padded with zeros.
func (s *scratch) packB(b Mat, cols int) {
	panels := (b.Cols + cols - 1) / cols
	s.b = grow(s.b, panels*cols*b.Rows)
	for n := 0; n < b.Cols; n += cols {
		panel := s.b[n*b.Rows:][:cols*b.Rows]
		part := b.part(0, n, b.Rows, min(cols, b.Cols-n))
		switch {
		case part.Cols < cols:
			packEdge(panel, part, cols)
		case b.Trans:
			packTransposed(panel, part, cols)
		default:
			for k := range b.Rows {
				copy(panel[k*cols:][:cols], part.Data[k*part.Stride:][:cols])
			}
		}
	}
}

// packEdge packs a panel of fewer than cols columns.
func packEdge(panel []float32, b Mat, cols int) {
	row, col := b.steps()
	for k := range b.Rows {
		out := panel[k*cols:][:cols]
		for j := range b.Cols {
			out[j] = b.Data[k*row+j*col]
		}
		clear(out[b.Cols:])
	}
}

// packTransposed packs a full panel whose columns are stored rows.
func packTransposed(panel []float32, b Mat, cols int) {
	square := 16
	if active == avx2 {
		square = 8
	}
	whole := b.Rows / square * square
	for j := 0; j < cols && whole > 0; j += square {
		to, from := &panel[j], &b.Data[j*b.Stride]
		if active == avx2 {
			transposeAVX2(to, uintptr(cols)*floatBytes, from, uintptr(b.Stride)*floatBytes, whole/square)
		} else {
			transposeAVX512(to, uintptr(cols)*floatBytes, from, uintptr(b.Stride)*floatBytes, whole/square)
		}
	}
	for k := whole; k < b.Rows; k++ {
		for j := range cols {
			panel[k*cols+j] = b.Data[j*b.Stride+k]
		}
	}
}

// grow returns buffer, or a larger one, that starts on a cache line.
func grow(buffer []float32, n int) []float32 {
	if n <= len(buffer) {
		return buffer
	}
	const line = 64 / floatBytes
	buffer = make([]float32, n+line)
	skip := (64 - uintptr(unsafe.Pointer(&buffer[0]))%64) % 64 / floatBytes
	return buffer[skip:][:n]
}
