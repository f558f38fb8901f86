package kernel

import "fmt"

// Mat is a view of a matrix that lies row by row in a slice. Rows and Cols are
// those of the logical matrix: with Trans, element (i, j) is Data[j*Stride+i].
type Mat struct {
	Data       []float32
	Rows, Cols int
	Stride     int // distance in elements between stored rows
	Trans      bool
}

// M views data as a dense rows x cols matrix.
func M(data []float32, rows, cols int) Mat { return View(data, rows, cols, cols) }

// View views data as rows x cols with stride elements from one row to the next.
func View(data []float32, rows, cols, stride int) Mat {
	return Mat{Data: data, Rows: rows, Cols: cols, Stride: stride}
}

// T returns the transpose, a view of the same data.
func (m Mat) T() Mat {
	m.Rows, m.Cols, m.Trans = m.Cols, m.Rows, !m.Trans
	return m
}

// steps returns the distances in elements to the next row and the next column.
func (m Mat) steps() (row, col int) {
	if m.Trans {
		return 1, m.Stride
	}
	return m.Stride, 1
}

// at returns the index in Data of element (i, j).
func (m Mat) at(i, j int) int {
	row, col := m.steps()
	return i*row + j*col
}

// part returns the view of rows [i, i+rows) and columns [j, j+cols).
func (m Mat) part(i, j, rows, cols int) Mat {
	if rows > 0 && cols > 0 {
		m.Data = m.Data[m.at(i, j):]
	}
	m.Rows, m.Cols = rows, cols
	return m
}

// check panics unless every element of the view lies in its slice. Assembly
// reads through these views, so this is the one guard against stray accesses.
func (m Mat) check(name string) {
	rows, cols := m.Rows, m.Cols
	if m.Trans {
		rows, cols = cols, rows
	}
	if rows < 0 || cols < 0 || m.Stride < cols {
		panic(fmt.Sprintf("kernel: matrix %s: %d x %d with stride %d", name, m.Rows, m.Cols, m.Stride))
	}
	if rows > 0 && cols > 0 {
		_ = m.Data[(rows-1)*m.Stride+cols-1]
	}
}
