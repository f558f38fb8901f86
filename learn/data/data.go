// Package data turns text into micro-batches that are the same on every machine: micro-batch i is a pure function of
// the dataset, the data seed and i, so that a miner, a validator and a replay years later see the same tokens without
// exchanging any.
//
// A part of the text, interleaved through all of it, is held out: MicroBatch never touches it, and HeldOut gives the
// same 64 micro-batches of it every time. Open reads text files; Sample is embedded English text of 3 MB; Chunks and
// FromChunks carry a dataset to another machine.
package data

import (
	_ "embed"
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"
)

//go:embed sample/sotu.txt.zst
var sample []byte

// Dataset is tokenised text. It is immutable and may be shared by goroutines. It keeps one byte per token of the byte
// tokenizer and two of any other.
type Dataset struct {
	tokenizer *Tokenizer
	text      []byte   // the tokens if the tokenizer is bytes
	ids       []uint16 // the tokens otherwise
	ends      []int    // where each text ends, in tokens
	hash      [32]byte
}

// Open reads text files and directories in the order given; of a directory it takes every *.txt and *.gz file that is
// not empty, in sorted order, subdirectories included. Files packed by gzip are unpacked. Every error is one line that
// names the file and what to do: a file that is missing, empty or not UTF-8 text.
func Open(paths []string, tokenizer *Tokenizer) (*Dataset, error) {
	files, err := list(paths)
	if err != nil {
		return nil, err
	}
	b := newBuilder(tokenizer)
	for _, file := range files {
		text, err := read(file)
		if err != nil {
			return nil, err
		}
		if err := b.add(text); err != nil {
			return nil, fmt.Errorf("data file %s: %w", file, err)
		}
	}
	return b.done(), nil
}

// Sample returns the embedded text, 83 State of the Union addresses from 1911 to 1992. Its hash is that of a file with
// the same text.
func Sample(tokenizer *Tokenizer) (*Dataset, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("unpack sample: %w", err)
	}
	defer r.Close()
	text, err := r.DecodeAll(sample, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack sample: %w", err)
	}
	return FromTexts(tokenizer, text)
}

// FromTexts returns a dataset of texts in memory, which it may keep: the same as Open gives for files that hold them.
func FromTexts(tokenizer *Tokenizer, texts ...[]byte) (*Dataset, error) {
	b := newBuilder(tokenizer)
	for _, text := range texts {
		if err := b.add(text); err != nil {
			return nil, err
		}
	}
	return b.done(), nil
}

// Tokenizer returns the tokenizer of the dataset.
func (d *Dataset) Tokenizer() *Tokenizer { return d.tokenizer }

// Tokens returns the number of tokens, the held-out ones included.
func (d *Dataset) Tokens() int { return len(d.text) + len(d.ids) }

// Hash returns the BLAKE3 hash of the tokenizer's name and the texts in order. Two datasets with the same hash give
// the same micro-batches.
func (d *Dataset) Hash() [32]byte { return d.hash }

// Check says in one line why the dataset cannot give micro-batches of batch rows and seqLen predicted tokens, or
// returns nil. It needs one micro-batch of batch x (seqLen + 1) tokens, and at least two rows: one is held out.
func (d *Dataset) Check(batch, seqLen int) error {
	if batch < 1 || seqLen < 1 {
		return fmt.Errorf("micro-batches of %d x %d tokens: both numbers must be at least 1", batch, seqLen)
	}
	if rows := max(batch, 2); seqLen >= d.Tokens() || d.Tokens()/(seqLen+1) < rows {
		return fmt.Errorf("the text has %d tokens, one micro-batch of %d x %d needs %d rows of %d: "+
			"give more text", d.Tokens(), batch, seqLen, rows, seqLen+1)
	}
	return nil
}

// MicroBatch writes the tokens of micro-batch i to dst: batch rows of seqLen + 1 tokens. Each row is a stretch of the
// text from a pseudo-random position and never holds a held-out token. Check must have passed for the shape.
func (d *Dataset) MicroBatch(seed, i uint64, batch, seqLen int, dst []int32) {
	row := seqLen + 1
	l, random := newLayout(d.Tokens(), row), newDraw(seed, i)
	starts := l.starts()
	for b := range batch {
		d.copy(dst[b*row:(b+1)*row], l.start(random.below(starts)))
	}
}

// HeldOut writes the tokens of held-out micro-batch j to dst: batch rows of seqLen + 1 tokens, none of which
// MicroBatch ever gives for the same seqLen. j counts from 0 and is taken modulo HeldOutBatches. Check must have passed
// for the shape.
func (d *Dataset) HeldOut(j uint64, batch, seqLen int, dst []int32) {
	row := seqLen + 1
	l := newLayout(d.Tokens(), row)
	for b := range batch {
		d.copy(dst[b*row:(b+1)*row], l.heldOutStart(int(j%HeldOutBatches), b, batch))
	}
}

// copy writes the tokens from position at on to row.
func (d *Dataset) copy(row []int32, at int) {
	if d.tokenizer.codec == nil {
		for i, token := range d.text[at : at+len(row)] {
			row[i] = int32(token)
		}
		return
	}
	for i, token := range d.ids[at : at+len(row)] {
		row[i] = int32(token)
	}
}

// builder collects the texts of a dataset.
type builder struct {
	dataset Dataset
	hasher  *blake3.Hasher
	texts   int
}

func newBuilder(tokenizer *Tokenizer) *builder {
	b := &builder{dataset: Dataset{tokenizer: tokenizer}, hasher: blake3.New()}
	b.hashPart([]byte("iota dataset 1"))
	b.hashPart([]byte(tokenizer.name))
	return b
}

// hashPart adds a part after its length, so that no two lists of parts look the same.
func (b *builder) hashPart(part []byte) {
	_, _ = b.hasher.Write(lengthOf(uint64(len(part)))) // never fails
	_, _ = b.hasher.Write(part)
}

// lengthOf is how the length of a part is written.
func lengthOf(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// add appends a text, and a separator between two.
func (b *builder) add(text []byte) error {
	b.hashPart(text)
	d := &b.dataset
	bytewise := d.tokenizer.codec == nil
	b.texts++
	switch {
	case b.texts == 1 && bytewise:
		d.text = text[:len(text):len(text)]
	case bytewise:
		for _, id := range d.tokenizer.separator() {
			d.text = append(d.text, byte(id))
		}
		d.text = append(d.text, text...)
	default:
		if b.texts > 1 {
			d.ids = append(d.ids, d.tokenizer.separator()...)
		}
		if err := d.tokenizer.encode(string(text), func(id uint) { d.ids = append(d.ids, uint16(id)) }); err != nil {
			return err
		}
	}
	d.ends = append(d.ends, d.Tokens())
	return nil
}

func (b *builder) done() *Dataset {
	b.hasher.Sum(b.dataset.hash[:0])
	return &b.dataset
}
