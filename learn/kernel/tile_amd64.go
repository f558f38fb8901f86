package kernel

import "unsafe"

// routines are the assembly for products of one variant and numerics.
type routines struct {
	kernels      []microKernel // the highest first; the last has one row
	strip, panel packer        // of A, transposed, and of B
	flags        uint8         // of the kernels
	masks        bool          // kernels leave out columns of C
}

// microKernel computes tiles of so many rows.
type microKernel struct {
	rows int
	run  func(c, next *float32, cRow uintptr, a, b *float32, bRow uintptr, k int, flags uint8, mask uint32)
}

// Flags of a micro-kernel.
const (
	tileAdd   = 1 << iota // the chains start from what C holds
	tileFlush             // subnormals count as zeros
)

var (
	tilesAVX512 = []microKernel{{12, tile12AVX512}, {8, tile8AVX512}, {4, tile4AVX512}, {2, tile2AVX512}, {1, tile1AVX512}}
	dotsAVX512  = []microKernel{{12, dotTile12AVX512}, {8, dotTile8AVX512}, {4, dotTile4AVX512}, {2, dotTile2AVX512}, {1, dotTile1AVX512}}
	tilesAVX2   = []microKernel{{6, tile6AVX2}, {4, tile4AVX2}, {2, tile2AVX2}, {1, tile1AVX2}}

	strip12    = packer{12, 1, transpose12AVX512, 12, 16, copy12AVX512, nil}
	panel32    = packer{32, 1, transpose16AVX512, 16, 16, copy32AVX512, nil}
	dotStrip12 = packer{12, 2, dotTranspose12AVX512, 12, 16, dotCopy12AVX512, nil}
	dotPanel32 = packer{32, 2, dotTranspose16AVX512, 16, 16, dotCopy32AVX512, nil}
	strip6     = packer{6, 1, transpose6AVX2, 6, 8, copy6AVX2, nil}
	panel16    = packer{16, 1, transpose8AVX2, 8, 8, copy16AVX2, nil}

	fmaAVX512     = routines{tilesAVX512, strip12, panel32, 0, true}
	fmaBF16AVX512 = routines{tilesAVX512, strip12.rounding(swap12AVX512), panel32.rounding(swap32AVX512), tileFlush, true}
	dotBF16AVX512 = routines{dotsAVX512, dotStrip12, dotPanel32, 0, true}
	fmaAVX2       = routines{tilesAVX2, strip6, panel16, 0, false}
	fmaBF16AVX2   = routines{tilesAVX2, strip6.rounding(swap6AVX2), panel16.rounding(swap16AVX2), tileFlush, false}
)

func (k packer) rounding(round func(x *float32, pairs int)) packer {
	k.round = round
	return k
}

// routinesFor returns the routines of a variant, nil if it has none.
func routinesFor(v variant, bf16 bool) *routines {
	switch {
	case v == portable:
		return nil
	case v == avx512bf16 && bf16:
		return &dotBF16AVX512
	case v == avx2 && bf16:
		return &fmaBF16AVX2
	case v == avx2:
		return &fmaAVX2
	case bf16:
		return &fmaBF16AVX512
	}
	return &fmaAVX512
}

// tile is what the micro-kernels work on: a tile of C, of any height and width up
// to the full tile's, a packed strip of A, and a panel of B. Strides are in
// elements.
type tile struct {
	*routines
	c, left, right       *float32
	next                 *float32 // the tile of C that follows, to be fetched
	cStride, rightStride int
	rows, cols, depth    int // depth counts rows of packed operands
	flags                uint8
}

// compute computes the tile.
func (t *tile) compute(s *scratch) {
	if t.masks || t.cols == t.panel.width {
		t.cover(t.c, t.next, t.cStride)
		return
	}
	width := t.panel.width
	edge, c := s.edge[:t.rows*width], unsafe.Slice(t.c, (t.rows-1)*t.cStride+t.cols)
	for i := range t.rows {
		copy(edge[i*width:], c[i*t.cStride:][:t.cols])
	}
	t.cover(&edge[0], &edge[0], width)
	for i := range t.rows {
		copy(c[i*t.cStride:][:t.cols], edge[i*width:])
	}
}

// cover computes the tile, whose C lies at to, with as high kernels as fit.
func (t *tile) cover(to, next *float32, stride int) {
	kernels, mask, cRow, bRow := t.kernels, uint32(1<<t.cols-1), uintptr(stride)*floatBytes, uintptr(t.rightStride)*floatBytes
	for i := 0; i < t.rows; i += kernels[0].rows {
		for kernels[0].rows > t.rows-i {
			kernels = kernels[1:]
		}
		kernels[0].run(after(to, i*stride), after(next, i*stride), cRow, after(t.left, i), t.right, bRow, t.depth, t.flags, mask)
	}
}
