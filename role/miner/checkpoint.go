package miner

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/zeebo/blake3"

	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
)

// momentumPrefix stands before a weight's name for the outer momentum of that weight.
const momentumPrefix = "outer_momentum/"

// checkpoint is a stage at the start of an epoch. All who hold equal ones encode them to equal bytes: the hash of those
// is what the network calls the hash of the weights.
type checkpoint struct {
	config  model.Config
	stage   int
	mark    mark
	weights []float32
	outer   []float32
}

// mark says at which point of the run a checkpoint came to be. That of the initial weights is zero.
type mark struct {
	epoch uint64  // that began with it
	rate  float32 // inner learning rate of that epoch: the schedule's position
}

// newCheckpoint returns one of zeros.
func (m *Miner) newCheckpoint(stage int) *checkpoint {
	size := m.config.StageSize(stage)
	return &checkpoint{config: m.config, stage: stage, weights: tensor.New(size), outer: tensor.New(size)}
}

// checkpoint returns that of the miner's epoch. It shares the miner's memory.
func (m *Miner) checkpoint() *checkpoint {
	return &checkpoint{m.config, m.stage.Index(), m.mark, m.start.w, m.outer}
}

// write encodes the checkpoint as safetensors with Hugging Face names.
func (c *checkpoint) write(w io.Writer) error {
	tensors := c.config.Export(c.stage, c.weights)
	for _, t := range c.config.Export(c.stage, c.outer) {
		t.Name = momentumPrefix + t.Name
		tensors = append(tensors, t)
	}
	return tensor.WriteSafetensors(w, tensors, map[string]string{
		"format": "pt",
		"stage":  strconv.Itoa(c.stage),
		"epoch":  strconv.FormatUint(c.mark.epoch, 10),
		"rate":   strconv.FormatUint(uint64(math.Float32bits(c.mark.rate)), 10),
	})
}

func (c *checkpoint) encode() ([]byte, error) {
	var b bytes.Buffer
	b.Grow(8*len(c.weights) + 1<<14) // weights, momentum, and names
	if err := c.write(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// ref names the encoding without keeping it.
func (c *checkpoint) ref() *message.BlobRef {
	h := &counter{h: blake3.New()}
	if err := c.write(h); err != nil {
		return nil // a hash takes every byte, and names and sizes are the config's own
	}
	return &message.BlobRef{Hash: h.h.Sum(nil), Size: h.size}
}

// counter hashes and counts what is written to it.
type counter struct {
	h    *blake3.Hasher
	size uint64
}

func (c *counter) Write(b []byte) (int, error) {
	c.size += uint64(len(b))
	return c.h.Write(b)
}

// readCheckpoint decodes a checkpoint of a stage and checks that it holds that stage and nothing else.
func (m *Miner) readCheckpoint(stage int, b []byte) (*checkpoint, error) {
	f, err := tensor.ReadSafetensors(b)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	c := m.newCheckpoint(stage)
	if want := 2 * len(m.config.Params(stage)); len(f.Tensors) != want {
		return nil, fmt.Errorf("checkpoint: %d tensors, want %d", len(f.Tensors), want)
	}
	if f.Metadata["stage"] != strconv.Itoa(stage) {
		return nil, fmt.Errorf("checkpoint: it is of stage %q", f.Metadata["stage"])
	}
	if c.mark.epoch, err = strconv.ParseUint(f.Metadata["epoch"], 10, 64); err != nil {
		return nil, fmt.Errorf("checkpoint: epoch: %w", err)
	}
	bits, err := strconv.ParseUint(f.Metadata["rate"], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: rate: %w", err)
	}
	if c.mark.rate, err = readRate(uint32(bits)); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if err := m.config.Import(stage, c.weights, f); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return c, c.importMomentum(f)
}

// importMomentum fills in the outer momentum.
func (c *checkpoint) importMomentum(f *tensor.File) error {
	for _, p := range c.config.Params(c.stage) {
		t, ok := f.Get(momentumPrefix + p.Name)
		if !ok || t.DType != "F32" || t.Len() != p.Size {
			return fmt.Errorf("checkpoint: outer momentum of %s is missing or of another size", p.Name)
		}
		if err := tensor.Decode(c.outer[p.Offset:p.Offset+p.Size], t.Data, tensor.F32); err != nil {
			return fmt.Errorf("checkpoint: outer momentum of %s: %w", p.Name, err)
		}
	}
	return nil
}
