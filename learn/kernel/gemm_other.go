//go:build !amd64

package kernel

// scratch would hold packed operands.
type scratch struct{}

func (*scratch) ready(int) {}

// running is a product that threads share.
type running struct{ rows product }

func (e *Engine) compute(p product) { e.computeRows(p) }
