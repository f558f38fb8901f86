package journal

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
)

// The library below answers a damaged page structure with a panic, a memory fault or endless recursion, some of them in
// goroutines of its own. So before it sees a file, checkPages walks the tree of pages and verifies everything that the
// library follows blindly: page numbers, kinds, bounds of every element, that no page is used twice, and that no page
// in use is listed as free, where the next record would overwrite it. Content is for the checksums to verify.

const (
	metaMagic  = 0xED0CDAED
	pageHead   = 16 // id u64, kind u16, count u16, overflow u32
	branchItem = 16 // pos u32, key size u32, page u64
	leafItem   = 16 // flags u32, pos u32, key size u32, value size u32
	bucketHead = 16 // root page u64, sequence u64
	maxDepth   = 64

	kindBranch = 1
	kindLeaf   = 2
	kindFree   = 16
)

type pageWalk struct {
	r        io.ReaderAt
	pageSize uint64
	pages    uint64 // pages at or above this one are not in use
	free     uint64 // the page that lists the free ones
	seen     map[uint64]bool
}

// checkPages returns ErrForeign when the file holds no journal, and ErrDamaged when its page structure is broken.
func checkPages(r io.ReaderAt, size int64) error {
	var head [pageHead + 64]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return fmt.Errorf("file of %d bytes is too short: %w", size, ErrForeign)
	}
	pageSize := uint64(binary.LittleEndian.Uint32(head[pageHead+8:]))
	if binary.LittleEndian.Uint32(head[pageHead:]) != metaMagic || pageSize < 512 || pageSize > 1<<20 {
		return fmt.Errorf("no header in the first page: %w", ErrForeign)
	}
	w := &pageWalk{r: r, pageSize: pageSize, seen: map[uint64]bool{0: true, 1: true}}
	root, err := w.meta(uint64(size))
	if err != nil {
		return err
	}
	if err := w.page(root, 0); err != nil {
		return err
	}
	return w.freePages()
}

// meta verifies both header pages and returns the root page of the younger one. Each is rewritten within one disk
// sector, so even a power cut leaves both whole: a bad one means damage, and going on with the other would silently
// forget the newest records.
func (w *pageWalk) meta(size uint64) (root uint64, err error) {
	var newest uint64
	for i := range uint64(2) {
		b := make([]byte, pageHead+64)
		if _, err := w.r.ReadAt(b, int64(i*w.pageSize)); err != nil {
			return 0, fmt.Errorf("header page %d: %v: %w", i, err, ErrDamaged)
		}
		m, h := b[pageHead:], fnv.New64a()
		h.Write(m[:56])
		if binary.LittleEndian.Uint64(m[56:]) != h.Sum64() || binary.LittleEndian.Uint64(b) != i {
			return 0, fmt.Errorf("header page %d: checksum differs: %w", i, ErrDamaged)
		}
		if tx := binary.LittleEndian.Uint64(m[48:]); i == 0 || tx > newest {
			newest, root = tx, binary.LittleEndian.Uint64(m[16:])
			w.free, w.pages = binary.LittleEndian.Uint64(m[32:]), binary.LittleEndian.Uint64(m[40:])
		}
	}
	if w.pages > size/w.pageSize {
		return 0, fmt.Errorf("file of %d bytes was cut, want %d: %w", size, w.pages*w.pageSize, ErrDamaged)
	}
	return root, nil
}

// page verifies the tree below page id.
func (w *pageWalk) page(id uint64, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d: broken link: %w", id, ErrDamaged)
	}
	head, size, err := w.head(id)
	if err != nil {
		return err
	}
	return w.items(id, size, int64(id*w.pageSize), head, depth)
}

// head verifies that page id is not in use yet, takes it, and returns its header and its size in bytes.
func (w *pageWalk) head(id uint64) (head [pageHead]byte, size uint64, err error) {
	if id >= w.pages || w.seen[id] {
		return head, 0, fmt.Errorf("page %d: broken link: %w", id, ErrDamaged)
	}
	if _, err := w.r.ReadAt(head[:], int64(id*w.pageSize)); err != nil {
		return head, 0, fmt.Errorf("page %d: %v: %w", id, err, ErrDamaged)
	}
	overflow := uint64(binary.LittleEndian.Uint32(head[12:]))
	if binary.LittleEndian.Uint64(head[:]) != id || overflow >= w.pages-id {
		return head, 0, fmt.Errorf("page %d: broken header: %w", id, ErrDamaged)
	}
	for p := id; p <= id+overflow; p++ {
		if w.seen[p] {
			return head, 0, fmt.Errorf("page %d: used twice: %w", p, ErrDamaged)
		}
		w.seen[p] = true
	}
	return head, (overflow + 1) * w.pageSize, nil
}

// freePages verifies the list of free pages: it names none twice, and none that is in use.
func (w *pageWalk) freePages() error {
	head, size, err := w.head(w.free)
	if err != nil {
		return err
	}
	b := make([]byte, size)
	if _, err := w.r.ReadAt(b, int64(w.free*w.pageSize)); err != nil {
		return fmt.Errorf("page %d: %v: %w", w.free, err, ErrDamaged)
	}
	list, count := b[pageHead:], uint64(binary.LittleEndian.Uint16(head[10:]))
	if count == 0xFFFF { // too many for the header: the first element is the count
		count, list = binary.LittleEndian.Uint64(list), list[8:]
	}
	if binary.LittleEndian.Uint16(head[8:]) != kindFree || count > uint64(len(list))/8 {
		return fmt.Errorf("page %d: broken header: %w", w.free, ErrDamaged)
	}
	for i := range count {
		id := binary.LittleEndian.Uint64(list[8*i:])
		if id >= w.pages || w.seen[id] {
			return fmt.Errorf("page %d: in use and listed as free: %w", id, ErrDamaged)
		}
		w.seen[id] = true
	}
	return nil
}

// items verifies the elements of the page of size bytes at the offset: a page of its own, or one inside a leaf's value.
func (w *pageWalk) items(id, size uint64, offset int64, head [pageHead]byte, depth int) error {
	kind, count := binary.LittleEndian.Uint16(head[8:]), uint64(binary.LittleEndian.Uint16(head[10:]))
	if kind != kindBranch && kind != kindLeaf || kind == kindBranch && count == 0 || pageHead+16*count > size {
		return fmt.Errorf("page %d: broken header: %w", id, ErrDamaged)
	}
	table := make([]byte, 16*count)
	if _, err := w.r.ReadAt(table, offset+pageHead); err != nil {
		return fmt.Errorf("page %d: %v: %w", id, err, ErrDamaged)
	}
	for i := range count {
		var err error
		if at := pageHead + 16*i; kind == kindBranch {
			err = w.branch(id, size-at, table[16*i:16*i+branchItem], depth)
		} else {
			err = w.leaf(id, size-at, offset+int64(at), table[16*i:16*i+leafItem], depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *pageWalk) branch(id, room uint64, item []byte, depth int) error {
	pos, key := uint64(binary.LittleEndian.Uint32(item)), uint64(binary.LittleEndian.Uint32(item[4:]))
	if pos+key > room {
		return fmt.Errorf("page %d: element out of bounds: %w", id, ErrDamaged)
	}
	return w.page(binary.LittleEndian.Uint64(item[8:]), depth+1)
}

func (w *pageWalk) leaf(id, room uint64, at int64, item []byte, depth int) error {
	flags, pos := binary.LittleEndian.Uint32(item), uint64(binary.LittleEndian.Uint32(item[4:]))
	key, value := uint64(binary.LittleEndian.Uint32(item[8:])), uint64(binary.LittleEndian.Uint32(item[12:]))
	if flags > 1 || pos+key+value > room {
		return fmt.Errorf("page %d: element out of bounds: %w", id, ErrDamaged)
	}
	if flags == 0 {
		return nil
	}
	// A bucket: its root page, or, when that is 0, a page inside the value.
	var b [bucketHead + pageHead]byte
	n := min(value, uint64(len(b)))
	if _, err := w.r.ReadAt(b[:n], at+int64(pos+key)); err != nil || n < bucketHead {
		return fmt.Errorf("page %d: broken bucket: %w", id, ErrDamaged)
	}
	if root := binary.LittleEndian.Uint64(b[:]); root != 0 {
		return w.page(root, depth+1)
	}
	if n < uint64(len(b)) || depth > maxDepth {
		return fmt.Errorf("page %d: broken bucket: %w", id, ErrDamaged)
	}
	return w.items(id, value-bucketHead, at+int64(pos+key)+bucketHead, [pageHead]byte(b[bucketHead:]), depth+1)
}
