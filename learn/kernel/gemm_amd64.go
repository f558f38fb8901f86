package kernel

// The blocked product, after Goto and van de Geijn: a block of B is packed into
// panels as wide as a tile, and some strips of A, as high as a tile, are packed
// together; each panel, now in the first cache, meets each of those strips.
// Blocking changes no result, so it follows the caches of the machine.

// scratch is an engine's memory for packed operands.
type scratch struct {
	a    []float32       // some strips
	b    [2][]float32    // a block, and the next one if threads work together
	edge [6 * 16]float32 // an AVX2 tile that reaches over the right edge
}

// ready allocates the memory for so many blocks at its full size, once.
func (s *scratch) ready(blocks int) {
	if active == portable {
		return
	}
	if s.a == nil {
		s.a = aligned(together * 12 * blockK)
	}
	for i := range s.b[:blocks] {
		if s.b[i] == nil {
			s.b[i] = aligned(blockK * columnsPerBlock)
		}
	}
}

const (
	blockK   = 256 // terms that a tile adds before it moves on
	together = 4   // strips of A, or panels of B, that are packed together
	// directRows is the number of rows of A below which packing B does not pay.
	directRows = 96
	floatBytes = 4
)

// columnsPerBlock is the number of columns of B that are packed at once: a quarter
// of the second cache.
var columnsPerBlock = max(256, secondCache/4/(blockK*floatBytes)&^31)

// tileSize is the size of the active variant's tile of C.
func tileSize() (rows, cols int) {
	if active == avx512 {
		return 12, 32
	}
	return 6, 16
}

// compute runs the product with the active variant on this goroutine.
func (p product) compute(s *scratch) {
	if active == portable {
		p.portable()
		return
	}
	s.ready(1)
	for i := range p.blocks() {
		b := p.block(i)
		b.packB(s.b[0], 0, b.panels())
		s.strips(b, s.b[0], 0, b.c.Rows)
	}
}

// shared is a product that threads share: the strips of one block, and after
// them the panels of the next.
type shared struct {
	block, next     product
	packed, packing []float32
}

// computeTogether runs the product on all threads. Packing the next block fills
// the time until the last strip of a block is done.
func (e *Engine) computeTogether(p product) {
	if active == portable {
		e.computeRows(p)
		return
	}
	e.pack.ready(2)
	e.mul = shared{next: p.block(0), packing: e.pack.b[0]}
	e.fork(e.mul.next.panelItems(), (*Engine).packItem)
	for i, n := 0, p.blocks(); i < n; i++ {
		e.mul = shared{block: e.mul.next, packed: e.mul.packing, packing: e.pack.b[(i+1)%2]}
		items := e.mul.block.stripItems()
		if i+1 < n {
			e.mul.next = p.block(i + 1)
			items += e.mul.next.panelItems()
		}
		e.fork(items, (*Engine).blockItem)
	}
	e.mul = shared{}
}

// blockItem computes the i-th share of the strips, or packs one of the panels.
func (e *Engine) blockItem(worker, i int) {
	if n := e.mul.block.stripItems(); i >= n {
		e.packItem(worker, i-n)
		return
	}
	from, to := e.mul.block.stripItem(i)
	e.subs[worker].pack.strips(e.mul.block, e.mul.packed, from, to)
}

// packItem packs the i-th share of the next block's panels.
func (e *Engine) packItem(_, i int) {
	next := e.mul.next
	next.packB(e.mul.packing, i*together, min((i+1)*together, next.panels()))
}

// panelItems returns the number of shares of a block's panels.
func (p product) panelItems() int { return (p.panels() + together - 1) / together }

// blocks returns the number of blocks of B.
func (p product) blocks() int {
	_, deep, wide := p.blockSize()
	return deep * wide
}

// blockSize returns the depth of a block of B, and how many blocks B is deep and
// wide. Blocks are equally deep, by a multiple of what packing takes at a time.
func (p product) blockSize() (depth, deep, wide int) {
	const grain = 16
	deep = max(1, (p.b.Rows+blockK-1)/blockK)
	depth = (p.b.Rows + deep*grain - 1) / (deep * grain) * grain
	return depth, deep, (p.b.Cols + columnsPerBlock - 1) / columnsPerBlock
}

// block returns the product of the i-th block of B; those of the same columns
// follow each other in increasing k.
func (p product) block(i int) product {
	depth, deep, _ := p.blockSize()
	j, k := i/deep*columnsPerBlock, i%deep*depth
	cols, terms := min(columnsPerBlock, p.b.Cols-j), min(depth, p.b.Rows-k)
	p.c = p.c.part(0, j, p.c.Rows, cols)
	p.a = p.a.part(0, k, p.a.Rows, terms)
	p.b = p.b.part(k, j, terms, cols)
	p.add = p.add || k > 0
	return p
}

// Strips of A are shared out by the handful, and the last ones singly.

// stripItems returns the number of shares of a block.
func (p product) stripItems() int {
	n, many := p.stripShares()
	return many + n - many*together
}

func (p product) stripShares() (strips, many int) {
	rows, _ := tileSize()
	strips = (p.c.Rows + rows - 1) / rows
	return strips, strips * 3 / 4 / together
}

// stripItem returns the rows of the i-th share.
func (p product) stripItem(i int) (from, to int) {
	rows, _ := tileSize()
	_, many := p.stripShares()
	if i < many {
		return i * together * rows, (i + 1) * together * rows
	}
	from = (i + many*(together-1)) * rows
	return from, min(from+rows, p.c.Rows)
}

// direct tells that whole panels of B are read where they lie.
func (p product) direct() bool { return !p.bf16 && !p.b.Trans && p.c.Rows < directRows }

// strips computes the rows [from, to) of a block whose B is packed in right, with
// A's part of s.
func (s *scratch) strips(p product, right []float32, from, to int) {
	rows, cols := tileSize()
	depth, width, stride := p.b.Rows, p.b.Cols, p.c.Stride
	size := packedRows(depth)
	t := tile{cStride: stride, depth: depth, add: p.add, bf16: p.bf16}
	for i := from; i < to; i += together * rows {
		height := min(together*rows, to-i)
		s.packA(p.a.part(i, 0, height, depth), rows, p.bf16)
		for n := 0; n < width; n += cols {
			t.right, t.rightStride, t.cols = &right[n*size], cols, min(cols, width-n)
			if p.direct() && t.cols == cols {
				t.right, t.rightStride = &p.b.Data[n], p.b.Stride
			}
			for r := 0; r < height; r += rows {
				t.left, t.c, t.rows = &s.a[r*size], &p.c.Data[(i+r)*stride+n], min(rows, height-r)
				t.next = t.c
				if r+rows < height {
					t.next = &p.c.Data[(i+r+rows)*stride+n]
				} else if n+cols < width {
					t.next = &p.c.Data[i*stride+n+cols]
				}
				t.compute(s)
			}
		}
	}
}
