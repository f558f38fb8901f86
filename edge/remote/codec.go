package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/iota-train/iota/protocol/message"
)

// codec passes bytes through: those of messages, which are encoded already, and those of pieces, which are never copied
// on their way out. What it writes and reads is protobuf all the same.
type codec struct{}

// Name makes the content type application/grpc+proto.
func (codec) Name() string { return "proto" }

// Marshal takes encoded bytes, buffers or a message.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case mem.BufferSlice:
		return v, nil
	case []byte:
		return mem.BufferSlice{mem.SliceBuffer(v)}, nil
	case proto.Message:
		return mem.BufferSlice{mem.SliceBuffer(message.Encode(v))}, nil
	}
	return nil, fmt.Errorf("a %T does not travel", v)
}

// Unmarshal gives out bytes of the caller's own, buffers that the caller frees, or a decoded message.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch v := v.(type) {
	case *mem.BufferSlice:
		data.Ref()
		*v = data
		return nil
	case *[]byte:
		*v = data.Materialize()
		return nil
	case proto.Message:
		return message.Decode(data.Materialize(), v)
	}
	return fmt.Errorf("a %T does not travel", v)
}

// The fields of a Piece, both length-delimited.
const (
	tagData   = 1<<3 | byte(protowire.BytesType)
	tagUpload = 2<<3 | byte(protowire.BytesType)

	maxUpload = 256 // bytes of an encoded Upload
)

// pack frames data as an encoded Piece around the data itself, which must stay as it is.
func pack(data []byte) mem.BufferSlice {
	head := protowire.AppendVarint(append(make([]byte, 0, 8), tagData), uint64(len(data)))
	return mem.BufferSlice{mem.SliceBuffer(head), mem.SliceBuffer(data)}
}

// unpack reads an encoded Piece and frees its buffers. It returns the upload that the piece names, or passes the data to
// take, which reads exactly the n bytes that it is offered.
func unpack(piece mem.BufferSlice, take func(r io.Reader, n int) error) (*message.Upload, error) {
	r := piece.Reader()
	piece.Free() // the reader has references of its own
	defer r.Close()
	tag, err := r.ReadByte()
	if err != nil {
		return nil, errors.New("an empty piece")
	}
	n, err := binary.ReadUvarint(r)
	if err != nil || n != uint64(r.Remaining()) {
		return nil, errors.New("a piece is one field, whole")
	}
	switch {
	case tag == tagData:
		return nil, take(r, int(n))
	case tag == tagUpload && n <= maxUpload:
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		upload := new(message.Upload)
		return upload, message.Decode(b, upload)
	}
	return nil, errors.New("not a piece of a blob")
}
