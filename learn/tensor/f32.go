package tensor

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"
)

// littleEndian says that this host holds a float32 in the very bytes of its f32
// encoding.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Bytes returns the f32 encoding of x for a reader that is done with it before x
// changes: where the host allows, it is x's own memory. It must not be written
// to.
func Bytes(x []float32) []byte {
	if littleEndian {
		return memory(x)
	}
	return appendF32(nil, x)
}

// Read returns the n values that b encodes, for a reader that is done with them
// before b changes: where the host allows, they are b's own memory, and must not
// be written to. Otherwise they lie in buf, which grows if it is too short. Like
// Decode it passes on values that are not finite.
func Read(buf *[]float32, n int, b []byte, dt DType) ([]float32, error) {
	if dt == F32 && littleEndian && n > 0 && len(b) == 4*n && uintptr(unsafe.Pointer(&b[0]))%4 == 0 {
		return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), n), nil
	}
	if err := checkSize(n, b, dt); err != nil {
		return nil, err
	}
	*buf = slices.Grow((*buf)[:0], n)[:n]
	return *buf, Decode(*buf, b, dt)
}

// memory returns the bytes in which x lies.
func memory(x []float32) []byte {
	// A byte needs no alignment, and any four bytes are a float32: both ways
	// of looking at the memory are sound, for reading and for writing.
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// appendF32 encodes on a host of any byte order.
func appendF32(dst []byte, x []float32) []byte {
	dst = slices.Grow(dst, 4*len(x))
	for _, v := range x {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return dst
}

// decodeF32 decodes on a host of any byte order.
func decodeF32(dst []float32, b []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
}
