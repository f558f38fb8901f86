package aggregate

import (
	"math"
	"slices"
)

// The rules of this file look at a shard as one point, and let a centre move from the coordinate median until it rests:
//
//	centre = centre + sum of pull_s (x_s - centre)
//
// They differ in how strongly a source pulls. Lengths are Euclidean and relative to a radius, the weighted median of
// the sources' distances from where the centre starts: so a rule means the same for large and for small shares, and sources
// that hold less than half of the weight do not set it.
const (
	nearest   = 1e-6  // distance, in radii, below which a source pulls no stronger
	stillness = 1e-10 // move, in radii, at which the centre rests
	passes    = 100   // at most: so a merge ends, whatever the sources are
)

// around starts the centre at the coordinate median, has it move, and writes down where it rests. Where half of the
// weight lies at the start, the radius is 0 and the centre rests there.
func (r *Reducer) around(dst []float32, move func(radius float64)) {
	r.start(len(dst))
	if radius := r.radius(); radius > 0 {
		move(radius)
	}
	for k, z := range r.centre {
		dst[k] = float32(z)
	}
}

// geometricMedian is where the sum of the weighted distances is least: a source pulls as its weight over its distance
// (Weiszfeld's iteration, smoothed).
func (r *Reducer) geometricMedian(radius float64) {
	r.weiszfeld(float64(nearest*radius), float64(stillness*radius), passes)
}

// centeredClip is where the sources' differences from the centre cancel, each with its weight and cut to the radius
// (Karimireddy, He and Jaggi, "Learning from history for Byzantine robust optimization", iterated to its end).
func (r *Reducer) centeredClip(radius float64) {
	r.clip(radius, float64(stillness*radius), passes)
}

// weiszfeld moves the centre until it moves by no more than tolerance, and returns the passes that took. A source nearer
// than nu, which is above 0, counts as so near.
func (r *Reducer) weiszfeld(nu, tolerance float64, most int) int {
	for pass := 1; ; pass++ {
		var sum float64
		for s, d := range r.distance {
			r.pull[s] = r.w[s] / r.total / max(nu, d)
			sum += r.pull[s]
		}
		for s := range r.pull {
			r.pull[s] /= sum
		}
		if r.move() <= tolerance || pass >= most {
			return pass
		}
	}
}

// clip moves the centre until it moves by no more than tolerance, and returns the passes that took. radius is above 0.
func (r *Reducer) clip(radius, tolerance float64, most int) int {
	for pass := 1; ; pass++ {
		for s, d := range r.distance {
			r.pull[s] = r.w[s] / r.total * min(1, radius/d)
		}
		if r.move() <= tolerance || pass >= most {
			return pass
		}
	}
}

// start puts the centre of n elements at the coordinate median and measures the distances.
func (r *Reducer) start(n int) {
	r.centre = slices.Grow(r.centre[:0], n)[:n]
	for k := range r.centre {
		r.sort(k)
		r.centre[k] = r.middle()
	}
	clear(r.pull)
	r.move()
}

// radius is the weighted median of the distances, each rounded to float32.
func (r *Reducer) radius() float64 {
	for s, d := range r.distance {
		r.keys[s] = key(float32(min(d, math.MaxFloat32)), s)
	}
	slices.Sort(r.keys)
	return r.middle()
}

// block is the number of elements that are worked on at a time, few enough to stay near the processor. It does not
// change the result.
const block = 1024

// move lets the sources pull once, in their order, measures their distances from where the centre is then, and returns
// how far it moved. Sums over the shard run in increasing position.
func (r *Reducer) move() float64 {
	var step [block]float64
	var moved float64
	clear(r.distance)
	for from := 0; from < len(r.centre); from += block {
		z := r.centre[from:min(from+block, len(r.centre))]
		by := step[:len(z)]
		clear(by)
		for s, x := range r.x {
			pullBy(by, x[from:from+len(z)], z, r.pull[s])
		}
		for k, d := range by {
			z[k] += d
			moved += float64(d * d)
		}
		for s, x := range r.x {
			r.distance[s] = squaredDistance(r.distance[s], x[from:from+len(z)], z)
		}
	}
	for s, d := range r.distance {
		r.distance[s] = math.Sqrt(d)
	}
	return math.Sqrt(moved)
}

// pullBy adds pull times the difference of x from z. The conversion forbids the compiler to fuse the two.
func pullBy(by []float64, x []float32, z []float64, pull float64) {
	by, z = by[:len(x)], z[:len(x)]
	for k, v := range x {
		by[k] += float64(pull * (float64(v) - z[k]))
	}
}

// squaredDistance adds the squared differences of x and z to sum.
func squaredDistance(sum float64, x []float32, z []float64) float64 {
	z = z[:len(x)]
	for k, v := range x {
		d := float64(v) - z[k]
		sum += float64(d * d)
	}
	return sum
}
