package data

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestEncodeGivesThePublishedTokens(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []int32
	}{
		{Bytes, "Aé", []int32{'A', 0xc3, 0xa9}},
		{Bytes, "", nil},
		{R50kBPE, "Hello, world!", []int32{15496, 11, 995, 0}},
		{R50kBPE, "hello world", []int32{31373, 995}},
		{R50kBPE, "a\x7fb\x7f", []int32{64, 221, 65, 221}},
		{R50kBPE, "", nil},
	} {
		got, err := tokenizer(t, c.name).Encode(c.text)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s %q: %v, %v", c.name, c.text, got, err)
		}
	}
}

func TestDecodeUndoesEncode(t *testing.T) {
	for _, name := range Tokenizers() {
		tok := tokenizer(t, name)
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.String().Draw(t, "text")
			ids, err := tok.Encode(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				if id < 0 || int(id) >= tok.Vocab() {
					t.Fatalf("token %d outside the vocabulary", id)
				}
			}
			if back, err := tok.Decode(ids); err != nil || back != text {
				t.Fatalf("%q became %q, %v", text, back, err)
			}
		})
	}
}

func TestNoCharacterIsLost(t *testing.T) {
	tok := tokenizer(t, R50kBPE)
	var text strings.Builder
	for r := range rune(unicode.MaxRune + 1) {
		if utf8.ValidRune(r) && (r < 0x10000 || r%16 == 0) { // all of the common plane, a sixteenth of the rest
			text.WriteRune(r)
		}
		if r%64 == 0 {
			text.WriteString(" a")
		}
	}
	ids, err := tok.Encode(text.String())
	if err != nil {
		t.Fatal(err)
	}
	if back, err := tok.Decode(ids); err != nil || back != text.String() {
		t.Errorf("%d bytes became %d, %v", text.Len(), len(back), err)
	}
}

func TestChunksDoNotChangeTokens(t *testing.T) {
	tok := tokenizer(t, R50kBPE)
	alphabet := []rune("ab Z9  \n\t'.,é世\u00a0")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom(alphabet)).Draw(t, "text")
		n := chunkEnd(text, rapid.IntRange(0, len(text)+1).Draw(t, "size"))
		if !utf8.ValidString(text[:n]) {
			t.Fatalf("chunk %q ends inside a character", text[:n])
		}
		whole, _, _ := tok.codec.Encode(text)
		left, _, _ := tok.codec.Encode(text[:n])
		right, _, _ := tok.codec.Encode(text[n:])
		if !slices.Equal(whole, append(left, right...)) {
			t.Fatalf("%q and %q differ from the whole", text[:n], text[n:])
		}
	})
}

func TestDecodeRefusesATokenOutsideTheVocabulary(t *testing.T) {
	for _, name := range Tokenizers() {
		tok := tokenizer(t, name)
		for _, id := range []int32{-1, int32(tok.Vocab())} {
			if _, err := tok.Decode([]int32{id}); err == nil {
				t.Errorf("%s decoded %d", name, id)
			}
		}
		for id := range int32(tok.Vocab()) {
			if _, err := tok.Decode([]int32{id}); err != nil {
				t.Fatalf("%s token %d: %v", name, id, err)
			}
		}
	}
}

func TestNewTokenizerListsTheNamesItKnows(t *testing.T) {
	_, err := NewTokenizer("gpt9")
	if err == nil || !strings.Contains(err.Error(), "choose one of bytes, r50k_base") {
		t.Error(err)
	}
	if tok, err := NewTokenizer("r50k"); err != nil || tok.Name() != R50kBPE || tok.Vocab() != 50257 {
		t.Error(tok, err)
	}
}
