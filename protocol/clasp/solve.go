package clasp

import (
	"math"
	"slices"
)

// The conversions to float64 in this package forbid the compiler to fuse a multiplication with an addition.

// matrix is a square matrix, row by row.
type matrix struct {
	n int
	x []float64
}

func newMatrix(n int) matrix { return matrix{n, make([]float64, n*n)} }

func (a matrix) row(i int) []float64 { return a.x[i*a.n : (i+1)*a.n] }

// invert replaces a symmetric positive definite matrix, of which the lower triangle is read, by its inverse. It reports
// false, with the matrix of no use, if it is not positive definite.
func (a matrix) invert() bool {
	if !a.cholesky() {
		return false
	}
	a.invertTriangle()
	for i := range a.n { // the inverse is T'T, T the inverse of the triangle
		for j := range i + 1 {
			sum := 0.0
			for k := i; k < a.n; k++ {
				sum += float64(a.x[k*a.n+i] * a.x[k*a.n+j])
			}
			a.x[j*a.n+i] = sum // above the diagonal, where nothing is read any more; the diagonal itself comes last
		}
	}
	for i := range a.n {
		for j := range i {
			a.x[i*a.n+j] = a.x[j*a.n+i]
		}
	}
	return true
}

// cholesky replaces the lower triangle by that of the factor.
func (a matrix) cholesky() bool {
	for i := range a.n {
		ri := a.row(i)
		for j := range i + 1 {
			rj := a.row(j)
			sum := ri[j] - dot(ri[:j], rj[:j])
			if j < i {
				ri[j] = sum / rj[j]
				continue
			}
			if !(sum > 0) {
				return false
			}
			ri[i] = math.Sqrt(sum)
		}
	}
	return true
}

// invertTriangle replaces the lower triangle by its inverse.
func (a matrix) invertTriangle() {
	for i := range a.n {
		ri := a.row(i)
		pivot := ri[i]
		for j := range i {
			sum := 0.0
			for k := j; k < i; k++ {
				sum += float64(ri[k] * a.x[k*a.n+j])
			}
			ri[j] = -sum / pivot
		}
		ri[i] = 1 / pivot
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v * b[i])
	}
	return sum
}

// times returns the product with a vector.
func (a matrix) times(v []float64) []float64 {
	out := make([]float64, a.n)
	for i := range out {
		out[i] = dot(a.row(i), v)
	}
	return out
}

// median returns the middle value, the lower of two, and 0 of none. It sorts its argument.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
