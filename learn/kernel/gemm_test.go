package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// eachVariant runs f with every variant of this CPU, and then restores the one that ran.
func eachVariant(t rapid.TB, f func(name string)) {
	t.Helper()
	was := Variant()
	defer func() {
		if err := Use(was); err != nil {
			t.Fatal(err)
		}
	}()
	for _, name := range Variants() {
		if err := Use(name); err != nil {
			t.Fatal(err)
		}
		f(name)
	}
}

// fill sets x to numbers of one kind: ordinary, large spread, subnormal, special.
func fill(rng *rand.Rand, x []float32, kind int) {
	for i := range x {
		v := float32(rng.NormFloat64())
		switch kind {
		case 1:
			v *= float32(math.Ldexp(1, rng.IntN(60)-30))
		case 2:
			v *= float32(math.Ldexp(1, -70-rng.IntN(75)))
		case 3:
			switch rng.IntN(40) {
			case 0:
				v = float32(math.Inf(1))
			case 1:
				v = float32(math.NaN())
			case 2:
				v = 0
			case 3:
				v = float32(math.Copysign(0, -1))
			}
		}
		x[i] = v
	}
}

// sameBits reports the first difference; two NaNs are equal whatever their bits.
func sameBits(a, b []float32) error {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) && (a[i] == a[i] || b[i] == b[i]) {
			return fmt.Errorf("element %d: %x and %x", i, a[i], b[i])
		}
	}
	return nil
}

// view draws a matrix of the given logical size, transposed or strided.
func view(t *rapid.T, rng *rand.Rand, rows, cols, kind int, label string) Mat {
	trans := rapid.Bool().Draw(t, label+" transposed")
	if trans {
		rows, cols = cols, rows
	}
	stride := cols + rapid.IntRange(0, 9).Draw(t, label+" gap")
	if rapid.IntRange(0, 4).Draw(t, label+" far") == 0 {
		stride = (cols + 1023) / 1024 * 1024 // rows that share cache sets
	}
	data := make([]float32, max(0, (rows-1)*stride+cols))
	fill(rng, data, kind)
	m := View(data, rows, cols, stride)
	if trans {
		m = m.T()
	}
	return m
}

func TestMatMulHasTheSameBitsInEveryVariantAndThreadCount(t *testing.T) {
	smallBlocks(t)
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		kind := rapid.IntRange(0, 3).Draw(t, "kind")
		m := rapid.OneOf(rapid.IntRange(0, 70), rapid.Just(150)).Draw(t, "m")
		n := rapid.SampledFrom([]int{0, 1, 7, 15, 16, 17, 31, 32, 33, 64, 100, 150}).Draw(t, "n")
		k := rapid.SampledFrom([]int{0, 1, 2, 8, 15, 16, 33, 64, 255, 256, 257, 600}).Draw(t, "k")
		a, b := view(t, rng, m, k, kind, "a"), view(t, rng, k, n, kind, "b")
		gap := rapid.IntRange(0, 3).Draw(t, "gap of c")
		fresh := func() Mat {
			data := make([]float32, max(0, (m-1)*(n+gap)+n)+5)
			fill(rand.New(rand.NewPCG(1, 2)), data, kind)
			return View(data, m, n, n+gap)
		}
		numerics := rapid.SampledFrom([]Numerics{F32, BF16}).Draw(t, "numerics")
		add := rapid.Bool().Draw(t, "add")
		want := fresh()
		product{want, a, b, add, numerics == BF16}.portable()
		eachVariant(t, func(name string) {
			if name == "portable" {
				return
			}
			for _, threads := range []int{1, 2, 3, 7} {
				e := NewFor(numerics, threads)
				got := fresh()
				if add {
					e.MatMulAdd(got, a, b)
				} else {
					e.MatMul(got, a, b)
				}
				e.Close()
				if err := sameBits(want.Data, got.Data); err != nil {
					t.Fatalf("%s, %d threads, %d x %d x %d: %v", name, threads, m, k, n, err)
				}
			}
		})
	})
}
