package tensor

import "testing"

// wire is as many values as a wire of the tiny model holds: 4 rows of 128 tokens, 128 wide.
const wire = 4 * 128 * 128

func BenchmarkEncode(b *testing.B) {
	x := make([]float32, wire)
	for i := range x {
		x[i] = float32(i) / 3
	}
	for _, dt := range all {
		b.Run(string(dt), func(b *testing.B) {
			b.SetBytes(4 * wire)
			b.ReportAllocs()
			for b.Loop() {
				Encode(nil, x, dt, 0)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	x := make([]float32, wire)
	for _, dt := range all {
		coded := Encode(nil, x, dt, 0)
		b.Run(string(dt), func(b *testing.B) {
			b.SetBytes(4 * wire)
			b.ReportAllocs()
			for b.Loop() {
				if err := Decode(x, coded, dt); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
