package kernel

func rowMax(l *[lanes]float32, x []float32)                { rowMaxPortable(l, x) }
func expSum(l *[lanes]float32, x []float32, shift float32) { expSumPortable(l, x, shift) }
func sumExp(l *[lanes]float32, x []float32, shift float32) { sumExpPortable(l, x, shift) }
func expScale(x []float32, shift, s float32)               { expScalePortable(x, shift, s) }
func scale(x []float32, s float32)                         { scalePortable(x, s) }
func add(y, x []float32)                                   { addPortable(y, x) }
func sub(y, x []float32)                                   { subPortable(y, x) }
func mul(y, x []float32)                                   { mulPortable(y, x) }
func axpy(y, x []float32, s float32)                       { axpyPortable(y, x, s) }
func dot(l *[lanes]float32, x, y []float32)                { dotPortable(l, x, y) }
func dot3(l *[lanes]float32, x, y, z []float32)            { dot3Portable(l, x, y, z) }
func dot64(l *[lanes]float64, x, y []float32)              { dot64Portable(l, x, y) }
func allFinite(x []float32) bool                           { return allFinitePortable(x) }
func norm(y, x, w []float32, inv float32)                  { normPortable(y, x, w, inv) }
func normBack(dx, dy, w, x []float32, inv, c float32)      { normBackPortable(dx, dy, w, x, inv, c) }
func normWeight(dw, dy, x []float32, inv float32)          { normWeightPortable(dw, dy, x, inv) }
func siluMul(u, g, up []float32)                           { siluMulPortable(u, g, up) }
func siluMulBack(dg, dup, du, g, up []float32)             { siluMulBackPortable(dg, dup, du, g, up) }
func softmaxBack(dp, p []float32, dot, scale float32)      { softmaxBackPortable(dp, p, dot, scale) }
func rotate(a, b, cos, sin []float32)                      { rotatePortable(a, b, cos, sin) }
func adamW(w, g, m, v []float32, c *AdamWCoef)             { adamWPortable(w, g, m, v, c) }
