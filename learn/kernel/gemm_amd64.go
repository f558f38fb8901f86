package kernel

// The blocked product, after Goto and van de Geijn: a block of B is packed into
// panels as wide as a tile, and some strips of A, as high as a tile, are packed
// together; each panel, now in the first cache, meets each of those strips.
// Blocking changes no result, so it follows the caches of the machine.

const (
	blockK  = 256 // packed rows that a tile adds before it moves on
	handful = 8   // strips of A, at most, that are packed together
	armful  = 4   // panels of B that are packed together
	// directRows is the number of rows of A below which packing B does not pay.
	directRows = 96
	floatBytes = 4
)

// columnsPerBlock is the number of columns of B that are packed at once, into half
// of a second cache of 1 MiB.
var columnsPerBlock = 512

// scratch is an engine's memory for packed operands.
type scratch struct {
	a      []float32       // some strips
	b      [2][]float32    // a block, and the next one if threads work together
	uneven []float32       // a panel, before it is packed
	edge   [6 * 16]float32 // an AVX2 tile that reaches over the right edge
}

// ready allocates the memory for so many blocks at its full size, once.
func (s *scratch) ready(blocks int) {
	if active == portable {
		return
	}
	if s.a == nil {
		s.a = aligned(handful*12*blockK + 16) // transpose writes beyond the last strip
		s.uneven = aligned(32 * 2 * blockK)
	}
	for i := range s.b[:blocks] {
		if s.b[i] == nil {
			s.b[i] = aligned(blockK * columnsPerBlock)
		}
	}
}

// block is the product of one block of B, by these routines.
type block struct {
	product
	*routines
	hand int // strips of a handful; fewer where many threads share them
}

// compute runs the product with the active variant.
func (e *Engine) compute(p product) {
	switch r := routinesFor(active, p.bf16); {
	case r == nil:
		e.computeRows(p)
	case e.threads == 1 || p.small():
		e.computeAlone(p, r)
	default:
		e.computeTogether(p, r)
	}
}

func (e *Engine) computeAlone(p product, r *routines) {
	s := &e.pack
	s.ready(1)
	whole := block{product: p, routines: r}
	for i := range whole.blocks() {
		b := whole.at(i)
		for item := range b.panelItems() {
			b.packItem(s, s.b[0], item)
		}
		b.compute(s, s.b[0], 0, b.c.Rows)
	}
}

// running is a product that threads share: the strips of one block, and after
// them the panels of the next.
type running struct {
	block, next     block
	packed, packing []float32
	rows            product // of computeRows
}

// computeTogether runs the product on all threads. Packing the next block fills
// the time until the last strip of a block is done.
func (e *Engine) computeTogether(p product, r *routines) {
	e.pack.ready(2)
	strips := pieces(p.c.Rows, r.strip.width)
	whole := block{p, r, max(1, min(handful, strips/(2*e.threads)))} // some for each thread
	e.mul = running{next: whole.at(0), packing: e.pack.b[0]}
	e.fork(e.mul.next.panelItems(), (*Engine).packItem)
	for i, n := 0, whole.blocks(); i < n; i++ {
		e.mul = running{block: e.mul.next, packed: e.mul.packing, packing: e.pack.b[(i+1)%2]}
		items := e.mul.block.stripItems()
		if i+1 < n {
			e.mul.next = whole.at(i + 1)
			items += e.mul.next.panelItems()
		}
		e.fork(items, (*Engine).blockItem)
	}
	e.mul = running{}
}

// blockItem computes the i-th item of the strips, or of the panels behind them.
func (e *Engine) blockItem(worker, i int) {
	b := &e.mul.block
	if n := b.stripItems(); i >= n {
		e.packItem(worker, i-n)
		return
	}
	from, to := b.stripItem(i)
	b.compute(&e.subs[worker].pack, e.mul.packed, from, to)
}

func (e *Engine) packItem(worker, i int) {
	e.mul.next.packItem(&e.subs[worker].pack, e.mul.packing, i)
}

// blocks returns the number of blocks of B.
func (b block) blocks() int {
	_, deep, wide := b.size()
	return deep * wide
}

// size returns the depth of a block of B, and how many blocks B is deep and wide.
// Blocks are equally deep, by a multiple of what packing takes at a time.
func (b block) size() (depth, deep, wide int) {
	step := grain * b.panel.terms
	deep = pieces(b.b.Rows, blockK*b.panel.terms)
	return pieces(b.b.Rows, deep*step) * step, deep, pieces(b.b.Cols, columnsPerBlock)
}

// at returns the i-th block of B; those of the same columns follow each other in
// increasing k.
func (b block) at(i int) block {
	depth, deep, _ := b.size()
	j, k := i/deep*columnsPerBlock, i%deep*depth
	cols, terms := min(columnsPerBlock, b.b.Cols-j), min(depth, b.b.Rows-k)
	b.c = b.c.part(0, j, b.c.Rows, cols)
	b.a = b.a.part(0, k, b.a.Rows, terms)
	b.b = b.b.part(k, j, terms, cols)
	b.add = b.add || k > 0
	return b
}

// panelItems is the number of items of packing B.
func (b *block) panelItems() int { return pieces(pieces(b.b.Cols, b.panel.width), armful) }

// packItem packs the i-th item, but for panels that are read where they lie.
func (b *block) packItem(s *scratch, out []float32, i int) {
	from, to := i*armful, min((i+1)*armful, pieces(b.b.Cols, b.panel.width))
	if b.direct() {
		from = max(from, b.b.Cols/b.panel.width)
	}
	b.panel.pack(s, out, b.b, from, to)
}

// direct tells that whole panels of B are read where they lie.
func (b *block) direct() bool { return !b.bf16 && !b.b.Trans && b.c.Rows < directRows }

// Strips are taken by the handful, and the last ones singly.

// stripItems is the number of items of computing with a packed B.
func (b *block) stripItems() int {
	strips, handfuls := b.strips()
	return handfuls + strips - handfuls*b.hand
}

// strips returns the number of strips, and how many handfuls of them are taken.
func (b *block) strips() (strips, handfuls int) {
	strips = pieces(b.c.Rows, b.strip.width)
	return strips, strips * 3 / 4 / b.hand
}

// stripItem returns the rows of the i-th item.
func (b *block) stripItem(i int) (from, to int) {
	rows := b.strip.width
	_, handfuls := b.strips()
	if i < handfuls {
		return i * b.hand * rows, (i + 1) * b.hand * rows
	}
	from = (i + handfuls*(b.hand-1)) * rows
	return from, min(from+rows, b.c.Rows)
}

// compute computes the rows [from, to) with B packed in right, and A's part of s.
func (b *block) compute(s *scratch, right []float32, from, to int) {
	rows, cols, size := b.strip.width, b.panel.width, b.strip.rows(b.b.Rows)
	depth, width, stride := b.b.Rows, b.b.Cols, b.c.Stride
	t := tile{routines: b.routines, cStride: stride, depth: depth, flags: b.flags}
	if b.bf16 {
		t.depth = (depth + 1) / 2 * 2 / b.strip.terms // whole pairs
	}
	if b.add {
		t.flags |= tileAdd
	}
	for i := from; i < to; i += handful * rows {
		height := min(handful*rows, to-i)
		b.strip.pack(s, s.a, b.a.part(i, 0, height, depth).T(), 0, pieces(height, rows))
		for n := 0; n < width; n += cols {
			t.right, t.rightStride, t.cols = &right[n*size], cols, min(cols, width-n)
			if b.direct() && t.cols == cols {
				t.right, t.rightStride = &b.b.Data[n], b.b.Stride
			}
			for r := 0; r < height; r += rows {
				t.left, t.c, t.rows = &s.a[r*size], &b.c.Data[(i+r)*stride+n], min(rows, height-r)
				t.next = t.c
				if r+rows < height {
					t.next = &b.c.Data[(i+r+rows)*stride+n]
				} else if n+cols < width {
					t.next = &b.c.Data[i*stride+n+cols]
				}
				t.compute(s)
			}
		}
	}
}

// pieces returns the number of pieces of the given size that cover n.
func pieces(n, size int) int { return (n + size - 1) / size }
