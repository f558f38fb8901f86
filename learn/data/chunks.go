package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// MaxChunk bounds a chunk, in bytes.
const MaxChunk = 4 << 20

// pieceTokens is how many tokens are decoded at a time.
const pieceTokens = 1 << 16

// Chunks gives the texts of the dataset in chunks of MaxChunk bytes, the last one perhaps shorter. Behind each other they
// are the texts in order, each after its length: the very bytes that the hash covers. A chunk is the caller's own. If the
// texts cannot be given back, as only a text that is not UTF-8 cannot, the last pair is an error.
func (d *Dataset) Chunks() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		whole := newBuilder(d.tokenizer)
		var chunk []byte
		for piece, err := range d.pieces() {
			if err != nil {
				yield(nil, err)
				return
			}
			_, _ = whole.hasher.Write(piece) // never fails
			for len(piece) > 0 {
				if chunk == nil {
					chunk = make([]byte, 0, MaxChunk)
				}
				n := min(len(piece), MaxChunk-len(chunk))
				chunk, piece = append(chunk, piece[:n]...), piece[n:]
				if len(chunk) == MaxChunk {
					if !yield(chunk, nil) {
						return
					}
					chunk = nil
				}
			}
		}
		switch {
		case whole.done().hash != d.hash:
			yield(nil, errors.New("the texts cannot be given back from their tokens: they are not UTF-8"))
		case chunk != nil:
			yield(chunk, nil)
		}
	}
}

// pieces gives the bytes of all chunks in pieces of any length.
func (d *Dataset) pieces() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		from := 0
		for i, to := range d.ends {
			if i > 0 {
				from += len(d.tokenizer.separator())
			}
			size := uint64(0)
			for piece, err := range d.decoded(from, to) {
				if err != nil {
					yield(nil, err)
					return
				}
				size += uint64(len(piece))
			}
			if !yield(lengthOf(size), nil) {
				return
			}
			for piece, err := range d.decoded(from, to) {
				if !yield(piece, err) || err != nil {
					return
				}
			}
			from = to
		}
	}
}

// decoded gives the text of tokens in pieces.
func (d *Dataset) decoded(from, to int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if d.tokenizer.codec == nil {
			yield(d.text[from:to], nil)
			return
		}
		var ids []int32
		for ; from < to; from += len(ids) {
			ids = ids[:0]
			for _, id := range d.ids[from:min(to, from+pieceTokens)] {
				ids = append(ids, int32(id))
			}
			text, err := d.tokenizer.Decode(ids)
			if !yield([]byte(text), err) || err != nil {
				return
			}
		}
	}
}

// FromChunks returns the dataset of that hash from its chunks, which may be cut anywhere. It keeps no chunk. Of the texts
// it holds one at a time beside the dataset.
func FromChunks(tokenizer *Tokenizer, hash [32]byte, chunks iter.Seq2[[]byte, error]) (*Dataset, error) {
	b := newBuilder(tokenizer)
	var head, text []byte // of the text that is being read
	for chunk, err := range chunks {
		if err != nil {
			return nil, err
		}
		for len(chunk) > 0 || complete(head, text) {
			if complete(head, text) {
				if err := b.add(text); err != nil {
					return nil, fmt.Errorf("data text %d: %w", b.texts, err)
				}
				head, text = nil, nil
				continue
			}
			part, room := &head, uint64(lengthBytes-len(head))
			if len(head) == lengthBytes {
				part, room = &text, binary.LittleEndian.Uint64(head)-uint64(len(text))
			}
			n := int(min(room, uint64(len(chunk))))
			*part, chunk = append(*part, chunk[:n]...), chunk[n:]
		}
	}
	if len(head) > 0 {
		return nil, errors.New("the data ends inside a text: get its chunks again")
	}
	d := b.done()
	if d.hash != hash {
		return nil, fmt.Errorf("the data has the hash %x, the run's is %x: get its chunks again", d.hash[:6], hash[:6])
	}
	return d, nil
}

// lengthBytes is how long a length is.
const lengthBytes = 8

// complete reports whether a text has the length that its head says.
func complete(head, text []byte) bool {
	return len(head) == lengthBytes && uint64(len(text)) == binary.LittleEndian.Uint64(head)
}

// OpenChunks returns the dataset of that hash from a file of all its chunks, one behind the other.
func OpenChunks(path string, tokenizer *Tokenizer, hash [32]byte) (*Dataset, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	d, err := FromChunks(tokenizer, hash, func(yield func([]byte, error) bool) {
		buffer := make([]byte, 1<<20)
		for {
			n, err := f.Read(buffer)
			if n > 0 && !yield(buffer[:n], nil) || err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("data file %s: %w", path, err)
	}
	return d, nil
}
