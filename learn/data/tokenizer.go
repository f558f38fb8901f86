package data

import (
	"fmt"
	"strings"

	"github.com/tiktoken-go/tokenizer/codec"
)

// Names of the tokenizers.
const (
	Bytes   = "bytes"     // one token per byte, vocabulary 256
	R50kBPE = "r50k_base" // byte-pair encoding of 50,257 tokens; r50k is accepted too
)

// Tokenizers returns the names that NewTokenizer knows.
func Tokenizers() []string { return []string{Bytes, R50kBPE} }

// endOfText separates texts in r50k_base. No text encodes to it.
const (
	endOfText     = 50256
	endOfTextName = "<|endoftext|>"
)

// The codec's word splitter drops the control character DEL, which is a token of its own and part of no other.
const (
	del      = '\x7f'
	delToken = 221
)

// encodeChunk bounds the text in bytes that the byte-pair codec sees at once, and with it the memory it needs.
const encodeChunk = 1 << 16

// Tokenizer turns text into tokens and back. It is immutable and may be shared by goroutines.
type Tokenizer struct {
	name  string
	vocab int
	codec *codec.Codec // nil for bytes
}

// NewTokenizer returns the tokenizer of a name, or an error that lists the names.
func NewTokenizer(name string) (*Tokenizer, error) {
	switch name {
	case Bytes:
		return &Tokenizer{name: Bytes, vocab: 256}, nil
	case R50kBPE, "r50k":
		return &Tokenizer{name: R50kBPE, vocab: endOfText + 1, codec: codec.NewR50kBase()}, nil
	}
	return nil, fmt.Errorf("unknown tokenizer %q: choose one of %s", name, strings.Join(Tokenizers(), ", "))
}

// Name returns the name that run manifests and checkpoints carry.
func (t *Tokenizer) Name() string { return t.name }

// Vocab returns the number of tokens; every token is below it.
func (t *Tokenizer) Vocab() int { return t.vocab }

// Encode returns the tokens of a text. Decode gives the same text back if it is valid UTF-8.
func (t *Tokenizer) Encode(text string) ([]int32, error) {
	ids := make([]int32, 0, len(text)/4+1)
	if t.codec == nil {
		for i := range len(text) {
			ids = append(ids, int32(text[i]))
		}
		return ids, nil
	}
	err := t.encode(text, func(id uint) { ids = append(ids, int32(id)) })
	return ids, err
}

// Decode returns the text of tokens. A sequence cut inside a character decodes to invalid UTF-8. A token outside the
// vocabulary is an error.
func (t *Tokenizer) Decode(tokens []int32) (string, error) {
	var text strings.Builder
	for _, id := range tokens {
		if id < 0 || int(id) >= t.vocab {
			return "", fmt.Errorf("decode token %d: the vocabulary has %d", id, t.vocab)
		}
		switch {
		case t.codec == nil:
			text.WriteByte(byte(id))
		case id == endOfText:
			text.WriteString(endOfTextName)
		default:
			piece, err := t.codec.Decode([]uint{uint(id)})
			if err != nil {
				return "", fmt.Errorf("decode token %d: %w", id, err)
			}
			text.WriteString(piece)
		}
	}
	return text.String(), nil
}

// encode yields the byte-pair tokens of a text, chunk by chunk.
func (t *Tokenizer) encode(text string, yield func(id uint)) error {
	for len(text) > 0 {
		if text[0] == del {
			yield(delToken)
			text = text[1:]
			continue
		}
		n := chunkEnd(text, encodeChunk)
		if at := strings.IndexByte(text[:n], del); at > 0 {
			n = at
		}
		ids, _, err := t.codec.Encode(text[:n])
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		for _, id := range ids {
			yield(id)
		}
		text = text[n:]
	}
	return nil
}

// chunkEnd returns where the first chunk of at least size bytes may end without changing a token: before a space that
// stands between two ASCII letters or digits. Byte-pair encoding works on words, and a word takes in the one space
// before it and nothing before that, so such a space always begins a word.
func chunkEnd(text string, size int) int {
	for i := max(size, 1); i < len(text)-1; i++ {
		if text[i] == ' ' && wordByte(text[i-1]) && wordByte(text[i+1]) {
			return i
		}
	}
	return len(text)
}

func wordByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
}

// separator returns the tokens between two texts.
func (t *Tokenizer) separator() []uint16 {
	if t.codec == nil {
		return []uint16{'\n', '\n'}
	}
	return []uint16{endOfText}
}
