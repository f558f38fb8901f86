package kernel

import "math"

// Log, Exp64, Pow, Cos and Sin are for tables and single numbers. The standard
// library's differ between architectures; these use only IEEE +, -, *, / on
// float64 with every product rounded by a conversion, so that no compiler may
// fuse it into an addition.

const (
	ln2Hi64  = 0x1.62e42fee00000p-1 // 32 bits: small integers times it are exact
	ln2Lo64  = 0x1.a39ef35793c76p-33
	halfPi0  = 0x1.921fb40000000p+0 // pi/2 in three parts of at most 24 bits
	halfPi1  = 0x1.4442d00000000p-24
	halfPi2  = 0x1.8469898cc5170p-48
	roundBig = 0x1.8p52 // adding it rounds to an integer
)

// Log returns the natural logarithm of x: NaN below 0, -Inf for 0.
func Log(x float64) float64 {
	switch {
	case x != x || x > math.MaxFloat64:
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	f, e := math.Frexp(x)
	if f < math.Sqrt2/2 {
		f, e = 2*f, e-1
	}
	// log f = 2 artanh(s), s = (f-1)/(f+1), |s| < 0.1716
	s := (f - 1) / (f + 1)
	s2 := float64(s * s)
	p := 0.0
	for k := 21; k >= 3; k -= 2 {
		p = float64((p + 1/float64(k)) * s2)
	}
	n := float64(e)
	tail := float64(n*ln2Lo64) + float64(2*float64(s*p))
	return float64(n*ln2Hi64) + (2*s + tail)
}

// Exp64 returns e^x: 0 below -700, +Inf above 709.
func Exp64(x float64) float64 {
	switch {
	case x != x:
		return x
	case x < -700:
		return 0
	case x > 709:
		return math.Inf(1)
	}
	n := float64(x*math.Log2E) + roundBig - roundBig
	r := x - float64(n*ln2Hi64) - float64(n*ln2Lo64)
	p := 1.0
	for k := 14; k >= 1; k-- {
		p = float64(p*r)/float64(k) + 1
	}
	return math.Ldexp(p, int(n))
}

// Pow returns x^y for x > 0.
func Pow(x, y float64) float64 { return Exp64(float64(y * Log(x))) }

// Cos returns the cosine of x, for |x| up to 2^24.
func Cos(x float64) float64 {
	r, quarter := reduce(x)
	switch quarter {
	case 0:
		return cosine(r)
	case 1:
		return -sine(r)
	case 2:
		return -cosine(r)
	}
	return sine(r)
}

// Sin returns the sine of x, for |x| up to 2^24.
func Sin(x float64) float64 {
	r, quarter := reduce(x)
	switch quarter {
	case 0:
		return sine(r)
	case 1:
		return cosine(r)
	case 2:
		return -sine(r)
	}
	return -cosine(r)
}

// reduce returns x - n pi/2 for the nearest integer n, and n modulo 4.
func reduce(x float64) (r float64, quarter int) {
	n := float64(x*(2/math.Pi)) + roundBig - roundBig
	r = x - float64(n*halfPi0) - float64(n*halfPi1) - float64(n*halfPi2)
	return r, int(int64(n) & 3)
}

// sine and cosine are Taylor series on |r| <= pi/4, to 1e-17.
func sine(r float64) float64 {
	r2 := float64(r * r)
	p := 1.0
	for k := 17; k >= 3; k -= 2 {
		p = 1 - float64(p*r2)/float64(k*(k-1))
	}
	return float64(p * r)
}

func cosine(r float64) float64 {
	r2 := float64(r * r)
	p := 1.0
	for k := 18; k >= 2; k -= 2 {
		p = 1 - float64(p*r2)/float64(k*(k-1))
	}
	return p
}
