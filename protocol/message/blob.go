package message

import "github.com/zeebo/blake3"

// Blob is bytes with their hash, which is computed when the blob is made and never again: whoever stores it may take its
// word. From then on nobody writes to the bytes.
type Blob struct {
	bytes []byte
	hash  [32]byte
}

// NewBlob makes a blob of b.
func NewBlob(b []byte) Blob { return Blob{b, blake3.Sum256(b)} }

// Bytes returns the content.
func (b Blob) Bytes() []byte { return b.bytes }

// Hash returns the BLAKE3 hash of the content.
func (b Blob) Hash() [32]byte { return b.hash }

// Ref names the blob.
func (b Blob) Ref() *BlobRef { return &BlobRef{Hash: b.hash[:], Size: uint64(len(b.bytes))} }
