package kernel

import "unsafe"

// packer packs columns of a matrix into panels: in a panel, row after row. The
// strips of A are panels of its transpose.
type packer struct {
	width int // columns of a panel
	terms int // rows of the matrix in one of a panel
	// transpose takes columns that are stored as rows: so many of them, and blocks
	// of so many packed rows.
	transpose       func(to *float32, toRow uintptr, from *float32, fromRow uintptr, blocks int)
	columns, blocks int
	// copy takes rows, of so many panels that lie size bytes apart.
	copy func(to *float32, size uintptr, from *float32, fromRow uintptr, rows, panels int)
	// round rounds packed rows to bfloat16 for fused multiply-adds.
	round func(x *float32, pairs int)
}

// grain is what the number of a panel's rows is a multiple of: each packer's blocks
// fill it.
const grain = 16

// rows is the number of rows that a packed block of k terms takes.
func (k *packer) rows(terms int) int { return pieces(terms, grain*k.terms) * grain }

// pack packs the panels [from, to) of b. What is missing of the last one is zero.
func (k *packer) pack(s *scratch, out []float32, b Mat, from, to int) {
	size := k.width * k.rows(b.Rows)
	whole := min(to, b.Cols/k.width)
	if !k.even(b) {
		whole = from
	}
	if !b.Trans && from < whole {
		k.copy(&out[from*size], uintptr(size)*floatBytes, &b.Data[from*k.width], uintptr(b.Stride)*floatBytes, b.Rows/k.terms, whole-from)
	}
	for n := from; n < to; n++ {
		panel := out[n*size:][:size]
		part := b.part(0, n*k.width, b.Rows, min(k.width, b.Cols-n*k.width))
		switch {
		case n >= whole:
			k.packUneven(s, panel, part)
		case b.Trans:
			k.across(panel, part)
		}
		if k.round != nil {
			k.round(&panel[0], (b.Rows+1)/2)
		}
	}
}

// even tells that b's rows are packed without a remainder.
func (k *packer) even(b Mat) bool {
	step := k.terms
	if b.Trans {
		step *= grain
	} else if k.round != nil {
		step = 2 // a pair
	}
	return b.Rows%step == 0
}

// packUneven packs a panel of few columns, or of a number of rows that leaves a
// remainder, from a copy that is filled up with zeros.
func (k *packer) packUneven(s *scratch, to []float32, b Mat) {
	full := Mat{Data: s.uneven, Rows: k.rows(b.Rows) * k.terms, Cols: k.width, Trans: b.Trans}
	lines, length, filled := b.Rows, b.Cols, full.Rows
	full.Stride = full.Cols
	if b.Trans {
		lines, length, filled = b.Cols, b.Rows, full.Cols
		full.Stride = full.Rows
	}
	for i := range lines {
		line := full.Data[i*full.Stride:][:full.Stride]
		clear(line[copy(line, b.Data[i*b.Stride:][:length]):])
	}
	clear(full.Data[lines*full.Stride : filled*full.Stride])
	if b.Trans {
		k.across(to, full)
	} else {
		k.copy(&to[0], 0, &full.Data[0], uintptr(full.Stride)*floatBytes, full.Rows/k.terms, 1)
	}
}

// across packs a panel of columns that are stored as rows.
func (k *packer) across(to []float32, b Mat) {
	for j := 0; j < k.width; j += k.columns {
		k.transpose(&to[j], uintptr(k.width)*floatBytes, &b.Data[j*b.Stride], uintptr(b.Stride)*floatBytes, b.Rows/(k.terms*k.blocks))
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
