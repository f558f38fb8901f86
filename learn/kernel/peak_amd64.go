package kernel

// fmaLoop runs fused multiply-adds of the active variant and returns their
// floating-point operations.
func fmaLoop(rounds int) float64 {
	switch active {
	case avx512, avx512bf16:
		peakAVX512(rounds)
		return float64(rounds) * 24 * 16 * 2
	case avx2:
		peakAVX2(rounds)
		return float64(rounds) * 12 * 8 * 2
	}
	return portableFMALoop(rounds)
}
