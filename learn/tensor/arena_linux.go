package tensor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the usual size of a huge page. Where it is another, the advice
// helps less and harms nothing.
const hugePage = 2 << 20

// hugePages asks for huge pages for those that lie wholly in b. It is advice:
// that a system has none is no error.
func hugePages(b []byte) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	from := int(-at % hugePage)
	if size := (len(b) - from) / hugePage * hugePage; from < len(b) && size > 0 {
		_ = unix.Madvise(b[from:from+size], unix.MADV_HUGEPAGE)
	}
}
