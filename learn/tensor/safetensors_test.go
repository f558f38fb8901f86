package tensor

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func sample() []Named {
	return []Named{
		Float32s("b", []int{2, 3}, []float32{1, 2, 3, 4, 5, 6}),
		{Name: "half", Shape: []int{2}, DType: "BF16", Data: []byte{0x80, 0x3f, 0, 0x40}},
		{Name: "scalar", Shape: []int{}, DType: "F64", Data: []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}},
		{Name: "tokens", Shape: []int{1, 2}, DType: "I32", Data: []byte{7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}},
		{Name: "empty", Shape: []int{0, 5}, DType: "F32"},
	}
}

func write(t interface{ Fatal(...any) }, tensors []Named, metadata map[string]string) []byte {
	var b bytes.Buffer
	if err := WriteSafetensors(&b, tensors, metadata); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSafetensorsRoundTrip(t *testing.T) {
	metadata := map[string]string{"a": "1", "z": `quote " and < and ü`}
	f, err := ReadSafetensors(write(t, sample(), metadata))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(metadata, f.Metadata); diff != "" {
		t.Error(diff)
	}
	for _, want := range sample() {
		got, ok := f.Get(want.Name)
		if !ok {
			t.Errorf("%s is missing", want.Name)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}
	if x, err := f.Tensors[0].Float64s(); err != nil || x[0] != 1 {
		t.Errorf("scalar: %v, %v", x, err)
	}
	half, _ := f.Get("half")
	if x, err := half.Float32s(); err != nil || x[0] != 1 || x[1] != 2 {
		t.Errorf("half: %v, %v", x, err)
	}
	tokens, _ := f.Get("tokens")
	if x, err := tokens.Int32s(); err != nil || x[0] != 7 || x[1] != -1 {
		t.Errorf("tokens: %v, %v", x, err)
	}
}

func TestSafetensorsBytesDoNotDependOnOrder(t *testing.T) {
	metadata := map[string]string{"x": "1", "y": "2", "z": "3"}
	want := write(t, sample(), metadata)
	reversed := sample()
	slices.Reverse(reversed)
	if !bytes.Equal(want, write(t, reversed, metadata)) {
		t.Error("another order of the tensors gave other bytes")
	}
}

func TestSafetensorsDataIsAligned(t *testing.T) {
	b := write(t, sample(), nil)
	if n := binary.LittleEndian.Uint64(b); n%8 != 0 {
		t.Errorf("header of %d bytes", n)
	}
}

func TestWriterRefusesWhatNoReaderTakes(t *testing.T) {
	for name, tensors := range map[string][]Named{
		"a name twice":       {Float32s("a", []int{1}, []float32{1}), Float32s("a", []int{1}, []float32{2})},
		"a wrong shape":      {Float32s("a", []int{2}, []float32{1})},
		"an unknown type":    {{Name: "a", Shape: []int{1}, DType: "F16", Data: []byte{0, 0}}},
		"the metadata's key": {Float32s("__metadata__", []int{1}, []float32{1})},
	} {
		t.Run(name, func(t *testing.T) {
			if err := WriteSafetensors(&bytes.Buffer{}, tensors, nil); err == nil {
				t.Error("it was written")
			}
		})
	}
}

// raw puts a header before data.
func raw(header, data string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func TestReaderRefusesCorruptFiles(t *testing.T) {
	one := `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`
	cases := map[string][]byte{
		"nothing":             nil,
		"a short length":      {1, 2, 3},
		"a huge header":       {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'},
		"a cut header":        raw(one, "1234"),
		"an array":            raw(`[]`, ""),
		"leading space":       raw(` {}`, ""),
		"text behind":         raw(one+`} {}`, "1234"),
		"an unknown type":     raw(`{"a":{"dtype":"F9","shape":[1],"data_offsets":[0,4]}}`, "1234"),
		"no shape":            raw(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, "1234"),
		"a negative size":     raw(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, "1234"),
		"two negative sizes":  raw(`{"a":{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]}}`, "1234"),
		"an overflow":         raw(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, ""),
		"a fraction":          raw(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, "1234"),
		"three offsets":       raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`, "1234"),
		"crossed offsets":     raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, "1234"),
		"a negative offset":   raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, "1234"),
		"offsets beyond":      raw(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, "1234"),
		"a wrong length":      raw(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, "1234"),
		"a hole in front":     raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, "12345678"),
		"data behind":         raw(one+`}`, "12345678"),
		"an overlap":          raw(one+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "1234"),
		"a name twice":        raw(one+`,"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, "12345678"),
		"metadata of numbers": raw(`{"__metadata__":{"a":1}}`, ""),
		"metadata twice":      raw(`{"__metadata__":{},"__metadata__":{}}`, ""),
	}
	for name, b := range cases {
		t.Run(name, func(t *testing.T) {
			f, err := ReadSafetensors(b)
			if err == nil {
				t.Fatalf("it was read: %+v", f)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error of more than one line: %q", err)
			}
		})
	}
}

func TestReaderTakesAnEmptyObject(t *testing.T) {
	if f, err := ReadSafetensors(raw(`{}`, "")); err != nil || len(f.Tensors) != 0 {
		t.Errorf("%v", err)
	}
}

func TestWhatIsReadIsWrittenAndReadTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.String(), 0, 5, rapid.ID[string]).Draw(t, "names")
		var tensors []Named
		for _, name := range names {
			if name == metadataKey {
				continue
			}
			n := rapid.IntRange(0, 7).Draw(t, "n")
			tensors = append(tensors, Float32s(name, []int{n}, make([]float32, n)))
		}
		first := write(t, tensors, nil)
		f, err := ReadSafetensors(first)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, write(t, f.Tensors, f.Metadata)) {
			t.Fatal("the second writing differs")
		}
	})
}
