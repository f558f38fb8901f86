package kernel

import "fmt"

// Numerics names a definition of every result of training: equal names, equal
// bits. docs/numerics.md holds the definitions.
type Numerics string

const (
	// F32 multiplies float32 matrices.
	F32 Numerics = "go-f32-2"
	// BF16 rounds both operands of a matrix product to bfloat16 and adds in
	// float32; everything else, weights and optimizer included, is as in F32.
	BF16 Numerics = "go-bf16-1"
)

// ParsePrecision returns the numerics of a precision, which is how people call
// them: f32 or bf16.
func ParsePrecision(name string) (Numerics, error) {
	switch name {
	case "f32":
		return F32, nil
	case "bf16":
		return BF16, nil
	}
	return "", fmt.Errorf("precision %q: use f32 or bf16", name)
}

// Precision returns the name that ParsePrecision reads.
func (n Numerics) Precision() string {
	if n == BF16 {
		return "bf16"
	}
	return "f32"
}

// ParseNumerics returns the definition of that name, or an error if this package
// does not compute it.
func ParseNumerics(name string) (Numerics, error) {
	switch n := Numerics(name); n {
	case F32, BF16:
		return n, nil
	}
	return "", fmt.Errorf("numerics %q: this release computes %s and %s", name, F32, BF16)
}
