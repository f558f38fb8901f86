package model

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/iota-train/iota/learn/kernel"
)

// initStd is the standard deviation of an ordinary matrix at the start.
const initStd = 0.02

// Init fills w with the starting weights of the stage: 1 for norms, N(0, std) for
// matrices, from a random stream of the seed and the weight's name, so that a
// weight does not depend on the cuts. std is 0.02 but for the weights that
// startStd names.
func (s *Stage) Init(w []float32, seed uint64) { s.config.Init(s.index, w, seed) }

// Init is Stage.Init for a caller that computes nothing.
func (c Config) Init(stage int, w []float32, seed uint64) {
	for _, p := range c.Params(stage) {
		x := w[p.Offset : p.Offset+p.Size]
		if len(p.Shape) == 1 {
			for i := range x {
				x[i] = 1
			}
			continue
		}
		fillNormal(x, stream(seed, p.Name), c.startStd(p.Name))
	}
}

// startStd returns the standard deviation of a matrix at the start.
func (c Config) startStd(name string) float64 {
	d, k := float64(c.Width), float64(c.BoundaryWidth)
	switch {
	case strings.HasSuffix(name, ".factor"), c.Boundary == SSN && name == embedName:
		return initStd * math.Sqrt(d/k) // so that an element of U Z has 0.02
	case strings.HasSuffix(name, "boundary.encode.weight"):
		return encodeGain / math.Sqrt(d)
	case strings.HasSuffix(name, "boundary.decode.weight"):
		return decodeGain / math.Sqrt(k)
	}
	return initStd
}

// Gains of a bottleneck's matrices at the start: their standard deviations are
// encodeGain/sqrt(d) and decodeGain/sqrt(k), on tiny 0.27 and 1.06. At 0.02 the
// encoded part of the wire is small beside its residual part, and the mean square
// of what the receiver decodes lies below the norm's epsilon. Measured on tiny
// after 300 micro-batches of lr 3e-3, in held-out nats, mean of three seeds that
// spread by 0.03: 2.057 with (0.02, 0.02), 2.061 with (0.09, 0.35), 2.039 with
// (0.3, 1), 2.063 with (1, 1). At lr 1e-3, one seed: 2.023, 2.007 and 1.996 for
// the first three.
const (
	encodeGain = 3
	decodeGain = 3
)

// DeriveBuffers returns the fixed buffers of SSN, a function of the config's
// seed alone: U, [d, k] with orthonormal columns, and the table, [V, d], N(0, 0.02).
func DeriveBuffers(c Config) (u, table []float32) {
	u = orthonormal(c.Width, c.BoundaryWidth, stream(c.BufferSeed, "boundary.U"))
	table = make([]float32, c.Vocab*c.Width)
	fillNormal(table, stream(c.BufferSeed, "boundary.table"), initStd)
	return u, table
}

// SetBuffers replaces the fixed buffers of SSN; the stage keeps the slices.
func (s *Stage) SetBuffers(u, table []float32) { s.u, s.table = u, table }

// Buffers returns the fixed buffers of SSN, nil with other boundaries.
func (s *Stage) Buffers() (u, table []float32) { return s.u, s.table }

// orthonormal returns a d x k matrix, row by row, of random orthonormal columns:
// Gram-Schmidt in float64, each column made orthogonal twice, every sum in order.
func orthonormal(d, k int, rng *rand.ChaCha8) []float32 {
	columns := make([][]float64, k)
	n := normal{rng: rng}
	for j := range columns {
		x := make([]float64, d)
		for i := range x {
			x[i] = n.next()
		}
		for range 2 {
			for _, y := range columns[:j] {
				c := dot(x, y)
				for i := range x {
					x[i] -= float64(c * y[i])
				}
			}
		}
		norm := math.Sqrt(dot(x, x))
		for i := range x {
			x[i] /= norm
		}
		columns[j] = x
	}
	u := make([]float32, d*k)
	for j, x := range columns {
		for i, v := range x {
			u[i*k+j] = float32(v)
		}
	}
	return u
}

func dot(x, y []float64) float64 {
	sum := 0.0
	for i := range x {
		sum += float64(x[i] * y[i])
	}
	return sum
}

// stream returns the random stream of a seed and a name.
func stream(seed uint64, name string) *rand.ChaCha8 {
	text := binary.LittleEndian.AppendUint64(nil, seed)
	return rand.NewChaCha8(sha256.Sum256(append(text, name...)))
}

func fillNormal(x []float32, rng *rand.ChaCha8, std float64) {
	n := normal{rng: rng}
	for i := range x {
		x[i] = float32(std * n.next())
	}
}

// normal draws from N(0, 1) by the polar method, with package kernel's logarithm
// because the standard library's differs between architectures.
type normal struct {
	rng   *rand.ChaCha8
	spare float64
	has   bool
}

func (n *normal) next() float64 {
	if n.has {
		n.has = false
		return n.spare
	}
	for {
		x, y := n.uniform(), n.uniform()
		r := float64(x*x) + float64(y*y)
		if r >= 1 || r == 0 {
			continue
		}
		f := math.Sqrt(-2 * kernel.Log(r) / r)
		n.spare, n.has = float64(y*f), true
		return float64(x * f)
	}
}

// uniform returns a multiple of 2^-52 in [-1, 1).
func (n *normal) uniform() float64 {
	return float64(int64(n.rng.Uint64())>>11) / (1 << 52)
}

// invSqrt returns 1/sqrt(n), rounded once from float64.
func invSqrt(n int) float32 { return float32(1 / math.Sqrt(float64(n))) }
