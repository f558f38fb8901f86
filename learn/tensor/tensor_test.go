package tensor

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"pgregory.net/rapid"
)

var all = []DType{F32, BF16, Int8}

func values() *rapid.Generator[[]float32] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float32 {
		return math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
	}), 0, 200)
}

func TestEncodedSizeIsTheNumberOfBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := values().Draw(t, "x")
		for _, dt := range all {
			b := Encode([]byte("head"), x, dt, 0)
			if len(b)-4 != EncodedSize(len(x), dt) || string(b[:4]) != "head" {
				t.Fatalf("%s: %d values gave %d bytes, want %d", dt, len(x), len(b)-4, EncodedSize(len(x), dt))
			}
			if err := Decode(make([]float32, len(x)), b[4:], dt); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestF32KeepsEveryBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := values().Draw(t, "x")
		y := make([]float32, len(x))
		if err := Decode(y, Encode(nil, x, F32, 0), F32); err != nil {
			t.Fatal(err)
		}
		for i := range x {
			if math.Float32bits(x[i]) != math.Float32bits(y[i]) {
				t.Fatalf("value %d: %x became %x", i, x[i], y[i])
			}
		}
	})
}

func TestEveryByteOrderGivesTheSameF32(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := values().Draw(t, "x")
		b := appendF32([]byte("head"), x)
		if got := Encode([]byte("head"), x, F32, 0); !bytes.Equal(got, b) {
			t.Fatalf("encoded %x, portably %x", got, b)
		}
		if got := Bytes(x); !bytes.Equal(got, b[4:]) {
			t.Fatalf("bytes %x, portably %x", got, b[4:])
		}
		y := make([]float32, len(x))
		decodeF32(y, b[4:])
		if !bytes.Equal(appendF32(nil, y), b[4:]) {
			t.Fatalf("%x, decoded portably and encoded again, is %x", b[4:], appendF32(nil, y))
		}
	})
}

func TestReadGivesWhatDecodeGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, head := values().Draw(t, "x"), rapid.IntRange(0, 4).Draw(t, "head") // not every blob is aligned
		buf := make([]float32, rapid.IntRange(0, 300).Draw(t, "buffer"))
		for _, dt := range all {
			b := Encode(make([]byte, head), x, dt, 0)[head:]
			want := make([]float32, len(x))
			if err := Decode(want, b, dt); err != nil {
				t.Fatal(err)
			}
			got, err := Read(&buf, len(x), b, dt)
			if err != nil || !bytes.Equal(appendF32(nil, got), appendF32(nil, want)) {
				t.Fatalf("%s: read %v, decoded %v, %v", dt, got, want, err)
			}
			if _, err := Read(&buf, len(x)+1, b, dt); err == nil {
				t.Fatalf("%s: no error for a missing value", dt)
			}
		}
		if _, err := Read(&buf, -1, nil, F32); err == nil {
			t.Fatal("no error for a length below zero")
		}
	})
}

func TestEncodeGrowsItsDestinationOnce(t *testing.T) {
	x := make([]float32, 1<<12)
	for _, dt := range all {
		n := testing.AllocsPerRun(10, func() { Encode(nil, x, dt, 0) })
		if n > 2 { // one, but for builds with the race detector; a slice that grows by and by takes a dozen
			t.Errorf("%s: %v allocations", dt, n)
		}
	}
}

func TestBF16RoundsToNearestTiesToEven(t *testing.T) {
	cases := []struct {
		in   uint32
		want uint16
	}{
		{0x3f800000, 0x3f80}, // 1
		{0x3f808000, 0x3f80}, // a tie goes to the even neighbour below
		{0x3f808001, 0x3f81}, // just above the tie
		{0x3f818000, 0x3f82}, // a tie goes to the even neighbour above
		{0x3f817fff, 0x3f81}, // just below the tie
		{0x7f7fffff, 0x7f80}, // the largest float32 rounds to infinity
		{0xff800000, 0xff80}, // -infinity
		{0x00000001, 0x0000}, // the smallest subnormal
		{0x80000000, 0x8000}, // -0
		{0x7f800001, 0x7fc0}, // a NaN whose payload would be cut stays a NaN
	}
	for _, c := range cases {
		if got := ToBF16(math.Float32frombits(c.in)); got != c.want {
			t.Errorf("%08x: got %04x, want %04x", c.in, got, c.want)
		}
	}
}

func TestBF16KeepsEveryValueThatItHas(t *testing.T) {
	b := make([]byte, 0, 2<<16)
	for i := range 1 << 16 {
		b = binary.LittleEndian.AppendUint16(b, uint16(i))
	}
	b = b[:len(b)-2] // not a multiple of four values
	x := make([]float32, len(b)/2)
	if err := Decode(x, b, BF16); err != nil {
		t.Fatal(err)
	}
	for i, v := range x {
		if want := uint32(i) << 16; math.Float32bits(v) != want {
			t.Fatalf("%04x became %08x", i, math.Float32bits(v))
		}
	}
}

func TestBF16IsTheNearestOfItsNeighbours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := float32(rapid.Float64Range(-1e30, 1e30).Draw(t, "x"))
		b := ToBF16(x)
		got := math.Abs(float64(FromBF16(b)) - float64(x))
		for _, n := range []uint16{b - 1, b + 1} {
			if d := math.Abs(float64(FromBF16(n)) - float64(x)); d < got {
				t.Fatalf("%v became %v, but %v is nearer", x, FromBF16(b), FromBF16(n))
			}
		}
	})
}

func TestInt8ErrorIsWithinHalfAStepOfTheBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float32Range(-1e3, 1e3), 1, 200).Draw(t, "x")
		y := make([]float32, len(x))
		if err := Decode(y, Encode(nil, x, Int8, 0), Int8); err != nil {
			t.Fatal(err)
		}
		for from := 0; from < len(x); from += Int8Block {
			to := min(from+Int8Block, len(x))
			largest := 0.0
			for _, v := range x[from:to] {
				largest = max(largest, math.Abs(float64(v)))
			}
			for i := from; i < to; i++ {
				if d := math.Abs(float64(x[i]) - float64(y[i])); d > largest/254*1.0001+1e-42 {
					t.Fatalf("value %d: %v became %v in a block up to %v", i, x[i], y[i], largest)
				}
			}
		}
	})
}

func TestInt8KeepsSubnormalBlocksInRange(t *testing.T) {
	x := []float32{math.SmallestNonzeroFloat32 * 200, -math.SmallestNonzeroFloat32 * 100}
	y := make([]float32, 2)
	if err := Decode(y, Encode(nil, x, Int8, 0), Int8); err != nil {
		t.Fatal(err)
	}
	if y[0] <= 0 || y[1] >= 0 {
		t.Errorf("%v became %v", x, y)
	}
}

func TestInt8OfANonFiniteBlockDoesNotLookSound(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		x := make([]float32, 130)
		x[70] = bad
		y := make([]float32, len(x))
		if err := Decode(y, Encode(nil, x, Int8, 0), Int8); err != nil {
			t.Fatal(err)
		}
		if y[64] == y[64] || y[0] != 0 || y[129] != 0 {
			t.Errorf("%v: got %v in its block, %v and %v outside", bad, y[64], y[0], y[129])
		}
	}
}

func TestDecodeRefusesAnyOtherLength(t *testing.T) {
	for _, dt := range append(all, "int4") {
		for _, n := range []int{0, 1, 3, 68, 69, 1000} {
			dst := make([]float32, 65)
			if err := Decode(dst, make([]byte, n), dt); err == nil {
				t.Errorf("%s: %d bytes passed for 65 values", dt, n)
			}
		}
	}
}

func TestParseDTypeKnowsItsNames(t *testing.T) {
	for _, dt := range all {
		if got, err := ParseDType(string(dt)); got != dt || err != nil {
			t.Errorf("%s: %v", dt, err)
		}
	}
	if _, err := ParseDType("fp8"); err == nil {
		t.Error("fp8 passed")
	}
}
