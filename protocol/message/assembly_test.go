package message

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
)

func TestAssembledBlobIsTheBlob(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, hashSpan - 1, hashSpan, hashSpan + 1, 100_000, firstRoom, 3*firstRoom + 5} {
		whole := make([]byte, size)
		for i := range whole {
			whole[i] = byte(random.Uint32())
		}
		a, source := Assemble(size), bytes.NewReader(whole)
		for held := 0; a.Left() > 0; {
			n := 1 + random.IntN(min(a.Left(), 1<<20))
			held += a.Room(n)
			if err := a.Take(source, n); err != nil {
				t.Fatal(err)
			}
			if held != cap(a.bytes) || held > max(firstRoom, 2*a.Len()) {
				t.Fatalf("%d bytes of memory for %d that came; %d were announced", cap(a.bytes), a.Len(), held)
			}
		}
		if got, want := a.Blob(), NewBlob(whole); got.Hash() != want.Hash() || !bytes.Equal(got.Bytes(), whole) {
			t.Errorf("a blob of %d bytes came out as another", size)
		}
	}
}

func TestAssemblyTakesNoMoreThanAnnounced(t *testing.T) {
	a := Assemble(10)
	if err := a.Take(bytes.NewReader(make([]byte, 20)), 11); err == nil || a.Len() != 0 {
		t.Errorf("%v, %d bytes", err, a.Len())
	}
	if err := a.Take(bytes.NewReader(make([]byte, 3)), 4); err == nil || a.Len() != 0 {
		t.Errorf("a short piece: %v, %d bytes", err, a.Len())
	}
	if err := a.Take(io.LimitReader(bytes.NewReader(make([]byte, 20)), 20), 10); err != nil || a.Left() != 0 {
		t.Errorf("%v, %d bytes left", err, a.Left())
	}
}
