package miner

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/message"
)

const (
	saveMagic  = "iota-miner-1\x00\x00\x00\x00"
	saveHeader = len(saveMagic) + 5*8 // magic; stage, step count, three lengths
	saveHash   = 32
	maxSteps   = 1 << 40
)

// Save returns the miner's private state as it was at the last install: its stage, both moments, the residual and the
// step count, with a hash over all. A miner that never held a stage has none, which is nil.
func (m *Miner) Save() []byte {
	if m.stage == nil && m.saved.t == 0 {
		return nil
	}
	return m.saved.encode()
}

// encode gives the state with a hash over all.
func (p *private) encode() []byte {
	vectors := [][]float32{p.m, p.v, p.residual}
	b := make([]byte, 0, saveHeader+4*(len(p.m)+len(p.v)+len(p.residual))+saveHash)
	b = append(b, saveMagic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.stage))
	b = binary.LittleEndian.AppendUint64(b, p.t)
	for _, x := range vectors {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(x)))
	}
	for _, x := range vectors {
		b = tensor.Encode(b, x, tensor.F32, 0)
	}
	return append(b, message.HashBytes(b)...)
}

// Restore takes up a state that Save gave, before the first LOAD; a LOAD of its stage goes on with it. Nil is the
// state of a new miner. A state that is damaged, or that does not fit the manifest, is an error and changes nothing.
func (m *Miner) Restore(b []byte) error {
	if m.stage != nil {
		return errors.New("restore: a stage is loaded already")
	}
	if len(b) == 0 {
		m.saved = private{}
		return nil
	}
	if len(b) < saveHeader+saveHash || string(b[:len(saveMagic)]) != saveMagic {
		return errors.New("restore: not the state of a miner")
	}
	body := b[:len(b)-saveHash]
	if !bytes.Equal(message.HashBytes(body), b[len(body):]) {
		return errors.New("restore: the state is damaged")
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(b[len(saveMagic)+8*i:]) }
	if number(0) >= uint64(m.config.Stages()) {
		return fmt.Errorf("restore: stage %d of %d", number(0), m.config.Stages())
	}
	p := m.newPrivate(int(number(0)))
	if p.t = number(1); p.t > maxSteps {
		return fmt.Errorf("restore: %d steps", p.t)
	}
	body = body[saveHeader:]
	for i, x := range [][]float32{p.m, p.v, p.residual} {
		if number(2+i) != uint64(len(x)) {
			return fmt.Errorf("restore: vector of %d numbers, want %d", number(2+i), len(x))
		}
		n := 4 * len(x)
		if len(body) < n {
			return errors.New("restore: the state is cut off")
		}
		if err := tensor.Decode(x, body[:n], tensor.F32); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		if !kernel.AllFinite(x) {
			return errors.New("restore: the state is not finite")
		}
		body = body[n:]
	}
	if len(body) > 0 {
		return fmt.Errorf("restore: %d bytes too many", len(body))
	}
	m.saved = p
	return nil
}
