//go:build !amd64

package kernel

// scratch would hold packed operands.
type scratch struct{}

func (*scratch) ready() {}

func (p product) compute(*scratch) { p.portable() }

func fmaLoop(rounds int) float64 { return portableFMALoop(rounds) }

func (e *Engine) computeTogether(p product) { e.computeRows(p) }
