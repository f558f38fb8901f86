package kernel

import "testing"

// smallBlocks lets products of a test's size have several blocks of columns.
func smallBlocks(t *testing.T) {
	was := columnsPerBlock
	columnsPerBlock = 64
	t.Cleanup(func() { columnsPerBlock = was })
}
