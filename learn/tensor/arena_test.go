package tensor

import (
	"testing"
	"unsafe"
)

func TestAnArenaIsAsLargeAsWhatIsCarved(t *testing.T) {
	var parts [][]float32
	layout := func(a *Arena) {
		parts = parts[:0]
		for _, n := range []int{1, 16, 17, 0, 1000, 3 << 20} {
			parts = append(parts, a.Take(n))
		}
	}
	if got, want := Measure(layout), 4*(16+16+32+1008+3<<20); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	Carve(layout)
	for i, n := range []int{1, 16, 17, 0, 1000, 3 << 20} {
		x := parts[i]
		if len(x) != n || cap(x) != n {
			t.Errorf("slice %d: length %d, capacity %d, want %d", i, len(x), cap(x), n)
		}
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(x))); at%64 != 0 {
			t.Errorf("slice %d begins within a cache line, at %x", i, at)
		}
		for j := range x {
			if x[j] != 0 {
				t.Fatalf("slice %d: number %d is %v: slices overlap, or the memory was not zero", i, j, x[j])
			}
			x[j] = float32(i + 1)
		}
	}
	for i, x := range parts {
		for _, v := range x {
			if v != float32(i+1) {
				t.Fatalf("slice %d was written to through another", i)
			}
		}
	}
}

func TestAnArenaThatIsExhaustedPanics(t *testing.T) {
	for name, second := range map[string]int{"more": 33, "less": 1} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			n := 32
			Carve(func(a *Arena) { a.Take(n); n = second })
		})
	}
}
