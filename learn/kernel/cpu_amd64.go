package kernel

import "golang.org/x/sys/cpu"

// fastest returns the fastest variant of this CPU. Package cpu also asks whether
// the operating system saves the wide registers.
func fastest() variant {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512BW:
		return avx512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return avx2
	}
	return portable
}
