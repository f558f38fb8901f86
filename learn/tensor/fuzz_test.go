package tensor

import (
	"bytes"
	"math"
	"testing"
)

// FuzzDecode decodes strange bytes with every codec: an error or as many numbers as were asked for, and those of the
// exact codecs encode to the same bytes again.
func FuzzDecode(f *testing.F) {
	x := []float32{0, 1, -1.5, 1e30, 1e-40, float32(math.Inf(1)), float32(math.NaN())}
	for i, dt := range []DType{F32, BF16, Int8} {
		f.Add(Encode(nil, x, dt, 0), uint16(len(x)), uint8(i))
		f.Add(Encode(nil, make([]float32, 3*Int8Block+1), dt, 0), uint16(3*Int8Block+1), uint8(i))
	}
	f.Add([]byte{}, uint16(0), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, n uint16, codec uint8) {
		dt := []DType{F32, BF16, Int8, "other"}[codec%4]
		dst := make([]float32, n)
		err := Decode(dst, b, dt)
		if fits := EncodedSize(int(n), dt) == len(b); fits != (err == nil) {
			t.Fatalf("%d %s values from %d bytes: %v", n, dt, len(b), err)
		}
		if err != nil || dt == Int8 {
			return
		}
		for _, v := range dst {
			if v != v {
				return // a NaN may lose its payload
			}
		}
		if !bytes.Equal(Encode(nil, dst, dt, 0), b) {
			t.Fatalf("%s: other bytes come back", dt)
		}
	})
}

// FuzzSafetensors reads strange files: a checkpoint comes from another miner.
func FuzzSafetensors(f *testing.F) {
	var b bytes.Buffer
	err := WriteSafetensors(&b, []Named{Float32s("a", []int{2, 3}, make([]float32, 6)), Float32s("b", []int{0}, nil)}, map[string]string{"stage": "1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "1234"))
	f.Add(raw(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, ""))
	f.Add(raw(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, "1234"))
	f.Add(raw(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"__metadata__":null}`, ""))
	f.Add(raw(`{`, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := ReadSafetensors(b)
		if err != nil {
			return
		}
		for _, n := range file.Tensors {
			if got, ok := file.Get(n.Name); !ok || len(got.Data) != len(n.Data) {
				t.Fatalf("tensor %q is not found", n.Name)
			}
			_, _ = n.Float32s()
			_, _ = n.Float64s()
			_, _ = n.Int32s()
		}
		var again bytes.Buffer
		if err := WriteSafetensors(&again, file.Tensors, file.Metadata); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if _, err := ReadSafetensors(again.Bytes()); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}
