package kernel

// FMAPeak measures a loop of independent fused multiply-adds on the given number
// of threads and returns GFLOP/s.
func FMAPeak(threads int) float64 { return 0 }
