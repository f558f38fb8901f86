package store

import (
	"testing"

	"github.com/iota-train/iota/protocol/message"
)

// BenchmarkMemory stores and reads a wire of the tiny model.
func BenchmarkMemory(b *testing.B) {
	m, blob := NewMemory(1<<30), make([]byte, 4*4*128*128)
	h := Sum(blob)
	for name, fn := range map[string]func() error{
		"Put": func() error {
			if err := m.Delete(h); err != nil {
				return err
			}
			_, err := m.Put(b.Context(), message.NewBlob(blob))
			return err
		},
		"Get": func() error {
			_, err := m.Get(b.Context(), h, uint64(len(blob)))
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			if _, err := m.Put(b.Context(), message.NewBlob(blob)); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(blob)))
			b.ReportAllocs()
			for b.Loop() {
				if err := fn(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
