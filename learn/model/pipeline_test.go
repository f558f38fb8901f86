package model_test

import (
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/tensor"
)

// pipeline runs all stages of a model in one goroutine.
type pipeline struct {
	config    model.Config
	stages    []*model.Stage
	tapes     []*model.Tape
	wires     [][]float32 // what crosses each boundary
	wireGrads [][]float32
	grads     [][]float32
	coded     []byte
}

func newPipeline(t interface{ Fatal(...any) }, c model.Config, e *kernel.Engine) *pipeline {
	p := &pipeline{config: c}
	for i := range c.Stages() {
		s, err := model.NewStage(c, i, e)
		if err != nil {
			t.Fatal(err)
		}
		p.stages = append(p.stages, s)
		p.tapes = append(p.tapes, s.NewTape())
		if i > 0 {
			p.wires = append(p.wires, make([]float32, c.Rows()*c.WireWidth()))
			p.wireGrads = append(p.wireGrads, make([]float32, c.Rows()*c.WireWidth()))
		}
	}
	p.grads = p.zeros()
	return p
}

// zeros returns one flat vector per stage.
func (p *pipeline) zeros() [][]float32 {
	var flat [][]float32
	for i := range p.stages {
		flat = append(flat, make([]float32, p.config.StageSize(i)))
	}
	return flat
}

// start returns initial weights.
func (p *pipeline) start(seed uint64) [][]float32 {
	w := p.zeros()
	for i, s := range p.stages {
		s.Init(w[i], seed)
	}
	return w
}

func (p *pipeline) wireInto(stage int) []float32 {
	if stage == 0 {
		return nil
	}
	return p.wires[stage-1]
}

// loss is one forward pass.
func (p *pipeline) loss(w [][]float32, tokens []int32) float64 { return p.lossFrom(0, w, tokens) }

// lossFrom is a forward pass from a stage on; the wire into it is given.
func (p *pipeline) lossFrom(stage int, w [][]float32, tokens []int32) float64 {
	last := len(p.stages) - 1
	for i := stage; i < last; i++ {
		s := p.stages[i]
		s.Forward(w[i], tokens, p.wireInto(i), p.wires[i], p.tapes[i])
		p.code(p.wires[i])
	}
	return p.stages[last].Loss(w[last], tokens, p.wireInto(last), p.tapes[last])
}

// pass is one forward and backward pass.
func (p *pipeline) pass(w [][]float32, tokens []int32) float64 {
	loss := p.loss(w, tokens)
	for i := len(p.stages) - 1; i >= 0; i-- {
		var dout, din []float32
		if i < len(p.stages)-1 {
			dout = p.wireGrads[i]
		}
		if i > 0 {
			din = p.wireGrads[i-1]
		}
		p.stages[i].Backward(w[i], p.tapes[i], dout, p.grads[i], din)
		if i > 0 {
			p.code(din)
		}
	}
	return loss
}

// code rounds x as the wire does.
func (p *pipeline) code(x []float32) {
	dt := tensor.DType(p.config.Wire)
	if dt == tensor.F32 {
		return
	}
	p.coded = tensor.Encode(p.coded[:0], x, dt, 0)
	if err := tensor.Decode(x, p.coded, dt); err != nil {
		panic(err)
	}
}
