package kernel

import "math"

// A sum or maximum along a row is defined on 16 lanes: lane l takes elements
// l, l+16, l+32, ... in increasing order, and a halving tree joins the lanes.
// Elements beyond the end do not count (+0 in a sum, -Inf in a maximum).

const lanes = 16

var negInf = float32(math.Inf(-1))

// treeSum joins the lanes of a sum.
func treeSum[T float32 | float64](l *[lanes]T) T {
	for half := lanes / 2; half > 0; half /= 2 {
		for i := range half {
			l[i] += l[i+half]
		}
	}
	return l[0]
}

// treeMax joins the lanes of a maximum.
func treeMax(l *[lanes]float32) float32 {
	for half := lanes / 2; half > 0; half /= 2 {
		for i := range half {
			if !(l[i] > l[i+half]) {
				l[i] = l[i+half]
			}
		}
	}
	return l[0]
}
