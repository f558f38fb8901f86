// Package tensor holds the forms in which float32 numbers leave memory: the
// wire codecs (f32, bf16, int8 in blocks) and safetensors files.
//
// Everything here is exact arithmetic on stated rounding rules, so that two
// machines encode the same numbers to the same bytes. Decoders take bytes from
// strangers: they check every length before they use it and never panic.
package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Param says where one weight lies in the flat vector of a stage.
type Param struct {
	Name   string
	Shape  []int
	Offset int // index of the first element
	Size   int // number of elements
}

// DType names a wire codec.
type DType string

// The wire codecs. Int8 has one float32 scale per block of Int8Block values.
const (
	F32  DType = "f32"
	BF16 DType = "bf16"
	Int8 DType = "int8"
)

// Int8Block is the number of values that share one scale.
const Int8Block = 64

// ParseDType returns the codec called name, or an error that lists them all.
func ParseDType(name string) (DType, error) {
	switch dt := DType(name); dt {
	case F32, BF16, Int8:
		return dt, nil
	}
	return "", fmt.Errorf("wire dtype %q: use f32, bf16 or int8", name)
}

// EncodedSize returns the number of bytes that n values take, or -1 for an
// unknown codec or a negative n.
func EncodedSize(n int, dt DType) int {
	if n < 0 {
		return -1
	}
	switch dt {
	case F32:
		return 4 * n
	case BF16:
		return 2 * n
	case Int8:
		return n + 4*((n+Int8Block-1)/Int8Block)
	}
	return -1
}

// Encode appends the encoding of x to dst and returns the longer slice, like
// append. The rounding is to nearest, ties to even, in every codec; seed is
// reserved for codecs that round stochastically and has no effect now. The
// codec must be one that ParseDType knows: others append nothing. A dst without
// room grows once.
func Encode(dst []byte, x []float32, dt DType, seed uint64) []byte {
	_ = seed
	switch dt {
	case F32:
		return append(dst, Bytes(x)...)
	case BF16:
		dst = slices.Grow(dst, EncodedSize(len(x), dt))
		for _, v := range x {
			dst = binary.LittleEndian.AppendUint16(dst, ToBF16(v))
		}
	case Int8:
		dst = slices.Grow(dst, EncodedSize(len(x), dt))
		for len(x) > 0 {
			n := min(len(x), Int8Block)
			dst = encodeBlock(dst, x[:n])
			x = x[n:]
		}
	}
	return dst
}

// Decode fills dst from b, which must hold exactly len(dst) values. Values that
// are not finite are passed on: the caller screens them.
func Decode(dst []float32, b []byte, dt DType) error {
	if err := checkSize(len(dst), b, dt); err != nil {
		return err
	}
	switch dt {
	case F32:
		if littleEndian {
			copy(memory(dst), b)
		} else {
			decodeF32(dst, b)
		}
	case BF16:
		decodeBF16(dst, b)
	case Int8:
		for len(dst) > 0 {
			n := min(len(dst), Int8Block)
			decodeBlock(dst[:n], b[:4+n])
			dst, b = dst[n:], b[4+n:]
		}
	}
	return nil
}

// checkSize returns an error if b cannot hold n values.
func checkSize(n int, b []byte, dt DType) error {
	size := EncodedSize(n, dt)
	if size < 0 {
		return fmt.Errorf("decode: unknown dtype %q", dt)
	}
	if len(b) != size {
		return fmt.Errorf("decode %d %s values: %d bytes, want %d", n, dt, len(b), size)
	}
	return nil
}

// decodeBF16 takes four values at a time, which is twice as fast as one.
func decodeBF16(dst []float32, b []byte) {
	for len(dst) >= 4 && len(b) >= 8 {
		four := binary.LittleEndian.Uint64(b)
		dst[0], dst[1] = FromBF16(uint16(four)), FromBF16(uint16(four>>16))
		dst[2], dst[3] = FromBF16(uint16(four>>32)), FromBF16(uint16(four>>48))
		dst, b = dst[4:], b[8:]
	}
	for i := range dst {
		dst[i] = FromBF16(binary.LittleEndian.Uint16(b[2*i:]))
	}
}

// ToBF16 rounds x to the nearest bfloat16, ties to even. A NaN stays a NaN.
func ToBF16(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// FromBF16 returns the value of a bfloat16, exactly.
func FromBF16(b uint16) float32 {
	return math.Float32frombits(uint32(b) << 16)
}

// encodeBlock appends the scale max|x|/127 and the values x/scale as int8. A
// block with a value that is not finite gets the scale NaN, so that no decoder
// takes it for sound.
func encodeBlock(dst []byte, x []float32) []byte {
	var largest float32
	finite := true
	for _, v := range x {
		if a := abs(v); a > largest {
			largest = a
		}
		finite = finite && v-v == 0
	}
	scale := largest / 127
	if !finite {
		scale = float32(math.NaN())
	}
	dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(scale))
	for _, v := range x {
		var q int8
		if scale > 0 {
			q = roundInt8(v / scale)
		}
		dst = append(dst, byte(q))
	}
	return dst
}

func decodeBlock(dst []float32, b []byte) {
	scale := math.Float32frombits(binary.LittleEndian.Uint32(b))
	for i, q := range b[4:] {
		dst[i] = float32(int8(q)) * scale
	}
}

// roundInt8 rounds to nearest, ties to even, and keeps within [-127, 127]: a
// subnormal scale is coarse enough to push a quotient beyond.
func roundInt8(x float32) int8 {
	const shift = 3 << 22 // adding it leaves no bits below 1
	x = min(max(x, -127), 127)
	sum := x + shift
	return int8(float32(sum - shift))
}

func abs(x float32) float32 {
	return math.Float32frombits(math.Float32bits(x) &^ (1 << 31))
}
