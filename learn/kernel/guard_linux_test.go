package kernel

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// guarded is memory whose end borders on a page that must not be touched.
type guarded struct {
	memory []byte
	page   int
}

func newGuarded(t *testing.T, pages int) guarded {
	t.Helper()
	page := syscall.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, (pages+1)*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(memory); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mprotect(memory[pages*page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return guarded{memory, page}
}

// floats returns n float32s that end at the forbidden page.
func (g guarded) floats(rng *rand.Rand, n int) []float32 {
	end := len(g.memory) - g.page
	x := unsafe.Slice((*float32)(unsafe.Pointer(&g.memory[end-4*n])), n)
	fill(rng, x, 0)
	return x
}

func TestAssemblyTouchesNothingBeyondItsSlices(t *testing.T) {
	const most = 40 * 1100
	var areas [6]guarded
	for i := range areas {
		areas[i] = newGuarded(t, 4*most/syscall.Getpagesize()+1)
	}
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		m, n := rapid.IntRange(1, 40).Draw(t, "m"), rapid.IntRange(1, 40).Draw(t, "n")
		k := rapid.OneOf(rapid.IntRange(1, 40), rapid.Just(1030)).Draw(t, "k")
		a, b := M(areas[0].floats(rng, m*k), m, k), M(areas[1].floats(rng, k*n), k, n)
		if rapid.Bool().Draw(t, "a transposed") {
			a = M(a.Data, k, m).T()
		}
		if rapid.Bool().Draw(t, "b transposed") {
			b = M(b.Data, n, k).T()
		}
		d := rapid.IntRange(0, 100).Draw(t, "d")
		c := M(areas[2].floats(rng, m*n), m, n)
		rows := rowCase{rows: m, d: d, targets: make([]int32, m)}
		eachVariant(t, func(string) {
			New(1).MatMul(c, a, b)
			for i := range rows.in {
				rows.in[i] = areas[i].floats(rng, m*d)
			}
			rows.runInPlace(New(1))
		})
	})
}
