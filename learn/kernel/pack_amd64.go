package kernel

import "unsafe"

// packer packs columns of a matrix into panels: in a panel, row after row. The
// strips of A are panels of its transpose.
type packer struct {
	width int // columns of a panel
	// transpose takes columns that are stored as rows: so many of them, and
	// blocks of so many elements.
	transpose       func(to *float32, toRow uintptr, from *float32, fromRow uintptr, blocks int)
	columns, blocks int
	// copy takes rows, of so many panels that lie size bytes apart.
	copy func(to *float32, size uintptr, from *float32, fromRow uintptr, k, panels int)
	// round rounds packed rows to bfloat16, nil for F32.
	round func(x *float32, pairs int)
}

// packedRows is the number of rows that a packed block of k terms takes: BF16
// needs pairs.
func packedRows(k int) int { return k + k&1 }

// pack packs the panels [from, to) of b. What is missing of the last one is zero.
func (k *packer) pack(out []float32, b Mat, from, to int) {
	width, size := k.width, k.width*packedRows(b.Rows)
	if whole := min(to, b.Cols/width); !b.Trans && from < whole {
		k.copy(&out[from*size], uintptr(size)*floatBytes, &b.Data[from*width], uintptr(b.Stride)*floatBytes, b.Rows, whole-from)
	}
	for n := from; n < to; n++ {
		panel := out[n*size:][:size]
		switch part := b.part(0, n*width, b.Rows, min(width, b.Cols-n*width)); {
		case part.Cols < width:
			packEdge(panel, part, width)
		case b.Trans:
			k.across(panel, part)
		}
		if k.round != nil {
			clear(panel[b.Rows*width:])
			k.round(&panel[0], packedRows(b.Rows)/2)
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

// across packs a panel of columns that are stored as rows.
func (k *packer) across(to []float32, b Mat) {
	whole := b.Rows / k.blocks * k.blocks
	for j := 0; j < k.width && whole > 0; j += k.columns {
		k.transpose(&to[j], uintptr(k.width)*floatBytes, &b.Data[j*b.Stride], uintptr(b.Stride)*floatBytes, whole/k.blocks)
	}
	for row := whole; row < b.Rows; row++ {
		for j := range k.width {
			to[row*k.width+j] = b.Data[j*b.Stride+row]
		}
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
