package data

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// collect returns all chunks.
func collect(t interface{ Fatal(...any) }, d *Dataset) [][]byte {
	var all [][]byte
	for chunk, err := range d.Chunks() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, chunk)
	}
	return all
}

// given yields chunks.
func given(chunks [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// same fails unless two datasets are equal in hash and tokens.
func same(t interface{ Fatalf(string, ...any) }, got, want *Dataset) {
	if got.Hash() != want.Hash() || !slices.Equal(got.text, want.text) || !slices.Equal(got.ids, want.ids) {
		t.Fatalf("%d tokens of hash %x, want %d of %x", got.Tokens(), got.Hash(), want.Tokens(), want.Hash())
	}
}

func TestChunksMakeTheSameDataset(t *testing.T) {
	for _, name := range Tokenizers() {
		tok := tokenizer(t, name)
		rapid.Check(t, func(t *rapid.T) {
			var texts [][]byte
			for _, s := range rapid.SliceOfN(rapid.String(), 0, 4).Draw(t, "texts") {
				texts = append(texts, []byte(s))
			}
			d, err := FromTexts(tok, texts...)
			if err != nil {
				t.Fatal(err)
			}
			whole := slices.Concat(collect(t, d)...)
			var cut [][]byte
			for rest := whole; len(rest) > 0; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
				cut, rest = append(cut, rest[:n]), rest[n:]
			}
			again, err := FromChunks(tok, d.Hash(), given(cut))
			if err != nil {
				t.Fatal(err)
			}
			same(t, again, d)
		})
	}
}

func TestSampleTravelsInBoundedChunks(t *testing.T) {
	for _, name := range Tokenizers() {
		tok := tokenizer(t, name)
		sample, err := Sample(tok)
		if err != nil {
			t.Fatal(err)
		}
		text, err := tok.Decode(allTokens(sample))
		if err != nil {
			t.Fatal(err)
		}
		d, err := FromTexts(tok, []byte(text), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		chunks := collect(t, d)
		for i, c := range chunks {
			if len(c) > MaxChunk || (i < len(chunks)-1 && len(c) != MaxChunk) {
				t.Errorf("chunk %d of %d has %d bytes", i, len(chunks), len(c))
			}
		}
		if len(chunks) != 2 {
			t.Errorf("%d chunks", len(chunks))
		}
		path := filepath.Join(t.TempDir(), "data")
		if err := os.WriteFile(path, slices.Concat(chunks...), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := OpenChunks(path, tok, d.Hash())
		if err != nil {
			t.Fatal(err)
		}
		same(t, again, d)
	}
}

func allTokens(d *Dataset) []int32 {
	all := make([]int32, d.Tokens())
	d.copy(all, 0)
	return all
}

func TestDamagedChunksAreRefused(t *testing.T) {
	tok := tokenizer(t, Bytes)
	d, err := FromTexts(tok, []byte("one text"), []byte("and another"))
	if err != nil {
		t.Fatal(err)
	}
	whole := slices.Concat(collect(t, d)...)
	flipped := slices.Clone(whole)
	flipped[10] ^= 1
	endless := slices.Clone(whole)
	endless[7] = 0xff
	for name, c := range map[string]struct {
		bytes []byte
		want  string
	}{
		"nothing":           {nil, "the run's is"},
		"a flipped bit":     {flipped, "the run's is"},
		"a missing end":     {whole[:len(whole)-1], "ends inside a text"},
		"an extra byte":     {append(slices.Clone(whole), 0), "ends inside a text"},
		"an endless length": {endless, "ends inside a text"},
		"one text of two":   {whole[:16], "the run's is"},
	} {
		_, err := FromChunks(tok, d.Hash(), given([][]byte{c.bytes}))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	broken := errors.New("the network is down")
	if _, err := FromChunks(tok, d.Hash(), func(yield func([]byte, error) bool) { yield(nil, broken) }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := OpenChunks(filepath.Join(t.TempDir(), "nowhere"), tok, d.Hash()); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("got %v", err)
	}
}

func TestTextThatIsNotUTF8CannotBeGivenBack(t *testing.T) {
	d, err := FromTexts(tokenizer(t, R50kBPE), []byte("fine \xff broken"))
	if err != nil {
		t.Skip("the tokenizer refuses it")
	}
	for _, err := range d.Chunks() {
		if err != nil {
			return
		}
	}
	if _, err := FromChunks(d.tokenizer, d.hash, d.Chunks()); err != nil {
		t.Error("neither an error nor the same text")
	}
}
