//go:build !amd64

package kernel

// scratch would hold packed operands.
type scratch struct{}

func (*scratch) ready(int) {}

// shared is a product that threads share.
type shared struct{ block product }

func (p product) compute(*scratch) { p.portable() }

func fmaLoop(rounds int) float64 { return portableFMALoop(rounds) }

func (e *Engine) computeTogether(p product) { e.computeRows(p) }
