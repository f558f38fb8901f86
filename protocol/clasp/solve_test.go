package clasp

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestTheInverseIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "n")
		d := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		a := newMatrix(n)
		for range n + 3 {
			row := make([]float64, n)
			for i := range row {
				row[i] = d.NormFloat64()
			}
			for i := range n {
				for j := range n {
					a.x[i*n+j] += row[i] * row[j]
				}
			}
		}
		for i := range n {
			a.x[i*n+i]++
		}
		inverse := newMatrix(n)
		copy(inverse.x, a.x)
		if !inverse.invert() {
			t.Fatal("not positive definite")
		}
		for i := range n {
			column := make([]float64, n)
			for j := range n {
				column[j] = a.x[j*n+i]
			}
			for j, x := range inverse.times(column) {
				want := 0.0
				if i == j {
					want = 1
				}
				if math.Abs(x-want) > 1e-9 {
					t.Fatalf("product has %v at %d, %d", x, i, j)
				}
			}
		}
	})
	if a := (matrix{2, []float64{1, 0, 2, 1}}); a.invert() {
		t.Error("a matrix that is not positive definite was inverted")
	}
}
