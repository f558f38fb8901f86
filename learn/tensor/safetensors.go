package tensor

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Named is one tensor of a safetensors file.
type Named struct {
	Name  string
	Shape []int
	DType string // F32, F64, I32 or BF16
	Data  []byte // little-endian, as many elements as Shape says
}

// File is a parsed safetensors file. Its tensors share the memory of the bytes
// that it was read from.
type File struct {
	Metadata map[string]string
	Tensors  []Named // in the order of their data
	index    map[string]int
}

// MaxHeader bounds the JSON header of a file that is read, in bytes.
const MaxHeader = 64 << 20

const metadataKey = "__metadata__"

// elementSize returns the bytes per element, 0 for an unknown type.
func elementSize(dtype string) int {
	switch dtype {
	case "F64":
		return 8
	case "F32", "I32":
		return 4
	case "BF16":
		return 2
	}
	return 0
}

// Float32s makes a tensor of type F32. It may share x's memory, as Bytes does:
// it is valid until x changes.
func Float32s(name string, shape []int, x []float32) Named {
	return Named{Name: name, Shape: shape, DType: "F32", Data: Bytes(x)}
}

// Len returns the number of elements according to Data.
func (n Named) Len() int {
	if size := elementSize(n.DType); size > 0 {
		return len(n.Data) / size
	}
	return 0
}

// Float32s returns the values of an F32 or BF16 tensor.
func (n Named) Float32s() ([]float32, error) {
	x := make([]float32, n.Len())
	switch n.DType {
	case "F32":
		return x, Decode(x, n.Data, F32)
	case "BF16":
		return x, Decode(x, n.Data, BF16)
	}
	return nil, fmt.Errorf("tensor %s: %s is not a float32 type", n.Name, n.DType)
}

// Float64s returns the values of an F64 tensor.
func (n Named) Float64s() ([]float64, error) {
	if n.DType != "F64" || len(n.Data)%8 != 0 {
		return nil, fmt.Errorf("tensor %s: %s is not F64", n.Name, n.DType)
	}
	x := make([]float64, n.Len())
	for i := range x {
		x[i] = math.Float64frombits(binary.LittleEndian.Uint64(n.Data[8*i:]))
	}
	return x, nil
}

// Int32s returns the values of an I32 tensor.
func (n Named) Int32s() ([]int32, error) {
	if n.DType != "I32" || len(n.Data)%4 != 0 {
		return nil, fmt.Errorf("tensor %s: %s is not I32", n.Name, n.DType)
	}
	x := make([]int32, n.Len())
	for i := range x {
		x[i] = int32(binary.LittleEndian.Uint32(n.Data[4*i:]))
	}
	return x, nil
}

// Get returns the tensor called name.
func (f *File) Get(name string) (Named, bool) {
	i, ok := f.index[name]
	if !ok {
		return Named{}, false
	}
	return f.Tensors[i], true
}

// WriteSafetensors writes the tensors and the metadata. The bytes depend on
// neither the order of the tensors nor that of the map: wider types come first,
// so that every tensor is aligned, and names are sorted within a width.
func WriteSafetensors(w io.Writer, tensors []Named, metadata map[string]string) error {
	sorted := slices.Clone(tensors)
	slices.SortFunc(sorted, func(a, b Named) int {
		if d := elementSize(b.DType) - elementSize(a.DType); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	header, err := header(sorted, metadata)
	if err != nil {
		return err
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(len(header))); err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	for _, t := range sorted {
		if _, err := w.Write(t.Data); err != nil {
			return fmt.Errorf("write safetensors: tensor %s: %w", t.Name, err)
		}
	}
	return nil
}

// header returns the JSON header, padded with spaces to a multiple of 8.
func header(sorted []Named, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	separator := byte('{')
	put := func(key string, value any) error {
		k, err := json.Marshal(key)
		if err != nil {
			return err
		}
		v, err := json.Marshal(value)
		if err != nil {
			return err
		}
		b.WriteByte(separator)
		b.Write(k)
		b.WriteByte(':')
		b.Write(v)
		separator = ','
		return nil
	}
	if len(metadata) > 0 {
		if err := put(metadataKey, metadata); err != nil {
			return nil, fmt.Errorf("write safetensors: metadata: %w", err)
		}
	}
	seen, offset := map[string]bool{metadataKey: true}, 0
	for _, t := range sorted {
		if seen[t.Name] {
			return nil, fmt.Errorf("write safetensors: tensor %s: name is taken", t.Name)
		}
		seen[t.Name] = true
		size, err := byteSize(t.DType, t.Shape)
		if err != nil || size != len(t.Data) {
			return nil, fmt.Errorf("write safetensors: tensor %s: %d bytes are not %s %v", t.Name, len(t.Data), t.DType, t.Shape)
		}
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		if err := put(t.Name, entry{t.DType, shape, []int{offset, offset + size}}); err != nil {
			return nil, fmt.Errorf("write safetensors: tensor %s: %w", t.Name, err)
		}
		offset += size
	}
	if separator == '{' {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	return b.Bytes(), nil
}

// entry is one tensor in the JSON header.
type entry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets []int  `json:"data_offsets"`
}

// byteSize returns the bytes of a tensor, or an error when the type is unknown,
// a dimension is negative or the product overflows.
func byteSize(dtype string, shape []int) (int, error) {
	size := elementSize(dtype)
	if size == 0 {
		return 0, fmt.Errorf("dtype %q is not supported", dtype)
	}
	empty := false
	for _, n := range shape {
		if n < 0 {
			return 0, fmt.Errorf("negative dimension %d", n)
		}
		if n == 0 {
			empty = true
			continue
		}
		if size > math.MaxInt/n {
			return 0, fmt.Errorf("shape %v overflows", shape)
		}
		size *= n
	}
	if empty {
		return 0, nil
	}
	return size, nil
}
