package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/tensor"
)

// Param says where one weight lies in a stage's flat vector.
type Param = tensor.Param

const (
	embedName = "model.embed_tokens.weight"
	normName  = "model.norm.weight"
	headName  = "lm_head.weight"
)

// Params returns the weights of a stage in the order of their names, which is
// also their order in the flat vector, without gaps. It returns nil for a stage
// that does not exist.
func (c Config) Params(stage int) []Param {
	if stage < 0 || stage >= len(c.Cuts) {
		return nil
	}
	var params []Param
	add := func(name string, shape ...int) { params = append(params, Param{Name: name, Shape: shape}) }
	if stage == 0 {
		width := c.Width
		if c.Boundary == SSN {
			width = c.BoundaryWidth
		}
		add(embedName, c.Vocab, width)
	}
	first := c.firstBlock(stage)
	for i := first; i < first+c.Cuts[stage]; i++ {
		c.blockParams(stage, i, add)
	}
	if c.isLast(stage) {
		add(normName, c.Width)
		add(headName, c.Vocab, c.Width)
	}
	slices.SortFunc(params, func(a, b Param) int { return strings.Compare(a.Name, b.Name) })
	offset := 0
	for i := range params {
		p := &params[i]
		p.Offset, p.Size = offset, 1
		for _, n := range p.Shape {
			p.Size *= n
		}
		offset += p.Size
	}
	return params
}

func (c Config) blockParams(stage, i int, add func(name string, shape ...int)) {
	d, f, k, kv := c.Width, c.FFN, c.BoundaryWidth, c.kvWidth()
	prefix := fmt.Sprintf("model.layers.%d.", i)
	intoResidual := func(name string, width int) {
		if c.factored(stage) {
			add(prefix+name+".factor", k, width)
		} else {
			add(prefix+name+".weight", d, width)
		}
	}
	add(prefix+"input_layernorm.weight", d)
	add(prefix+"self_attn.q_proj.weight", d, d)
	add(prefix+"self_attn.k_proj.weight", kv, d)
	add(prefix+"self_attn.v_proj.weight", kv, d)
	intoResidual("self_attn.o_proj", d)
	add(prefix+"post_attention_layernorm.weight", d)
	add(prefix+"mlp.gate_proj.weight", f, d)
	add(prefix+"mlp.up_proj.weight", f, d)
	intoResidual("mlp.down_proj", f)
	if c.receives(stage, i) {
		add(prefix+"boundary.decode.weight", d, k)
	}
	if c.sends(stage, i) {
		add(prefix+"boundary.encode.weight", k, d)
	}
}

// StageSize returns the number of weights of a stage.
func (c Config) StageSize(stage int) int {
	n := 0
	for _, p := range c.Params(stage) {
		n += p.Size
	}
	return n
}

// Parameters returns the number of weights of all stages.
func (c Config) Parameters() int {
	n := 0
	for stage := range c.Cuts {
		n += c.StageSize(stage)
	}
	return n
}

// weight is a weight's place in the flat vector. A norm has one row.
type weight struct{ offset, rows, cols int }

// mat views the weight in a flat vector of weights or gradients.
func (h weight) mat(w []float32) kernel.Mat { return kernel.M(h.vec(w), h.rows, h.cols) }

func (h weight) vec(w []float32) []float32 { return w[h.offset : h.offset+h.rows*h.cols] }

// blockWeights are the places of one block's weights.
type blockWeights struct {
	norm1, q, k, v, o         weight
	norm2, gate, up, down     weight
	encode, decode            weight
	receives, sends, factored bool
}

// places finds a stage's weights by name.
func places(params []Param) map[string]weight {
	m := make(map[string]weight, len(params))
	for _, p := range params {
		h := weight{p.Offset, 1, p.Shape[len(p.Shape)-1]}
		if len(p.Shape) == 2 {
			h.rows = p.Shape[0]
		}
		m[p.Name] = h
	}
	return m
}

func (c Config) blockWeights(stage, i int, at map[string]weight) blockWeights {
	prefix := fmt.Sprintf("model.layers.%d.", i)
	kind := ".weight"
	if c.factored(stage) {
		kind = ".factor"
	}
	return blockWeights{
		norm1: at[prefix+"input_layernorm.weight"],
		q:     at[prefix+"self_attn.q_proj.weight"],
		k:     at[prefix+"self_attn.k_proj.weight"],
		v:     at[prefix+"self_attn.v_proj.weight"],
		o:     at[prefix+"self_attn.o_proj"+kind],
		norm2: at[prefix+"post_attention_layernorm.weight"],
		gate:  at[prefix+"mlp.gate_proj.weight"],
		up:    at[prefix+"mlp.up_proj.weight"],
		down:  at[prefix+"mlp.down_proj"+kind],

		encode:   at[prefix+"boundary.encode.weight"],
		decode:   at[prefix+"boundary.decode.weight"],
		receives: c.receives(stage, i), sends: c.sends(stage, i), factored: c.factored(stage),
	}
}
