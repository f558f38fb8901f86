package tensor

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ReadSafetensors parses a whole file that is in memory. The file is refused
// unless its header is well formed, no name comes twice, every tensor has a
// known type and exactly the bytes that its shape asks for, and the tensors
// cover the data without holes or overlaps. The result shares b's memory.
func ReadSafetensors(b []byte) (*File, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("read safetensors: %d bytes are too short", len(b))
	}
	length := binary.LittleEndian.Uint64(b)
	if length > MaxHeader || length > uint64(len(b)-8) {
		return nil, fmt.Errorf("read safetensors: header of %d bytes in a file of %d", length, len(b))
	}
	f, spans, err := parseHeader(b[8 : 8+length])
	if err != nil {
		return nil, fmt.Errorf("read safetensors: %w", err)
	}
	if err := f.attach(b[8+length:], spans); err != nil {
		return nil, fmt.Errorf("read safetensors: %w", err)
	}
	return f, nil
}

// span is where a tensor's data lies.
type span struct{ from, to int }

// parseHeader reads the JSON object key by key, because a map would silently
// keep one of two equal names.
func parseHeader(text []byte) (*File, map[string]span, error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, nil, errors.New("header does not start with {")
	}
	f, spans := &File{}, map[string]span{}
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("header: %w", err)
		}
		name, _ := token.(string) // keys of an object are strings
		if name == metadataKey {
			if f.Metadata != nil {
				return nil, nil, errors.New("header: metadata comes twice")
			}
			if err := d.Decode(&f.Metadata); err != nil {
				return nil, nil, fmt.Errorf("metadata: %w", err)
			}
			continue
		}
		if _, twice := spans[name]; twice {
			return nil, nil, fmt.Errorf("tensor %q comes twice", name)
		}
		t, s, err := parseEntry(d, name)
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		f.Tensors, spans[name] = append(f.Tensors, t), s
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, nil, errors.New("header: more follows the object")
	}
	return f, spans, nil
}

func parseEntry(d *json.Decoder, name string) (Named, span, error) {
	var e entry
	if err := d.Decode(&e); err != nil {
		return Named{}, span{}, err
	}
	if e.Shape == nil {
		return Named{}, span{}, errors.New("no shape")
	}
	size, err := byteSize(e.DType, e.Shape)
	if err != nil {
		return Named{}, span{}, err
	}
	if len(e.Offsets) != 2 {
		return Named{}, span{}, fmt.Errorf("%d data offsets, want 2", len(e.Offsets))
	}
	from, to := e.Offsets[0], e.Offsets[1]
	if from < 0 || to < from || to-from != size {
		return Named{}, span{}, fmt.Errorf("offsets %d to %d, but %s %v takes %d bytes", from, to, e.DType, e.Shape, size)
	}
	return Named{Name: name, Shape: e.Shape, DType: e.DType}, span{from, to}, nil
}

// attach sorts the tensors by place, checks that they tile the data, and gives
// each its part.
func (f *File) attach(data []byte, spans map[string]span) error {
	slices.SortStableFunc(f.Tensors, func(a, b Named) int {
		x, y := spans[a.Name], spans[b.Name]
		if x.from != y.from {
			return compare(x.from, y.from)
		}
		return compare(x.to, y.to)
	})
	covered := 0
	f.index = make(map[string]int, len(f.Tensors))
	for i := range f.Tensors {
		t := &f.Tensors[i]
		s := spans[t.Name]
		if s.from != covered || s.to > len(data) {
			return fmt.Errorf("tensor %q: data at %d to %d, want it at %d within %d bytes", t.Name, s.from, s.to, covered, len(data))
		}
		t.Data = data[s.from:s.to:s.to]
		f.index[t.Name] = i
		covered = s.to
	}
	if covered != len(data) {
		return fmt.Errorf("%d bytes of data belong to no tensor", len(data)-covered)
	}
	return nil
}

func compare(a, b int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
