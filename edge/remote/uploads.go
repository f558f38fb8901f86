package remote

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
)

// upload is a blob that a key puts. It outlives a call that broke off, so that the next one goes on from there, until
// the key is forgotten or others need the memory.
type upload struct {
	assembly *message.Assembly
	memory   int64
	active   bool
	touched  time.Time
}

// overhead is the memory, in bytes, of an upload of which nothing has come yet.
const overhead = 16 << 10

// reserve counts memory for a key's blob on its way. Uploads that nobody goes on with make room: the key's own for its
// own bound, anybody's for that of all. With an upload the memory is the upload's.
func (m *members) reserve(who *member, u *upload, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count(who, u, n)
}

// count is reserve with the lock held.
func (m *members) count(who *member, u *upload, n int64) error {
	for who.memory+n > m.limits.MemoryPerKey {
		if !m.reclaim(who) {
			return status.Error(codes.Unavailable, "too many bytes of this key are on their way")
		}
	}
	for m.memory+n > m.limits.Memory {
		if !m.reclaim(nil) {
			return status.Error(codes.Unavailable, "too many bytes are on their way: try again")
		}
	}
	who.memory += n
	m.memory += n
	if u != nil {
		u.memory += n
	}
	return nil
}

func (m *members) release(who *member, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	who.memory -= n
	m.memory -= n
}

// reclaim drops the upload, of one key or of all, that nobody has gone on with for the longest time.
func (m *members) reclaim(of *member) bool {
	var owner *member
	var oldest store.Hash
	var touched time.Time
	for _, who := range m.byKey {
		if of != nil && who != of {
			continue
		}
		for hash, u := range who.uploads {
			if !u.active && (owner == nil || u.touched.Before(touched)) {
				owner, oldest, touched = who, hash, u.touched
			}
		}
	}
	if owner == nil {
		return false
	}
	m.drop(owner, oldest)
	return true
}

// drop forgets an upload. The lock is held.
func (m *members) drop(who *member, hash store.Hash) {
	if u := who.uploads[hash]; u != nil {
		who.memory -= u.memory
		m.memory -= u.memory
		delete(who.uploads, hash)
	}
}

// busy reports whether an upload of the key is under way. The lock is held.
func (w *member) busy() bool {
	for _, u := range w.uploads {
		if u.active {
			return true
		}
	}
	return false
}

// begin opens an upload at an offset: a new one at 0, else the one that broke off there.
func (m *members) begin(who *member, hash store.Hash, size int, offset uint64) (*upload, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := who.uploads[hash]
	switch {
	case u != nil && u.active:
		return nil, errBusy
	case offset > 0 && (u == nil || uint64(u.assembly.Len()) != offset || u.assembly.Left() != size-u.assembly.Len()):
		return nil, status.Error(codes.Aborted, "no upload broke off there: ask again where to go on")
	case offset == 0:
		m.drop(who, hash)
		u = &upload{assembly: message.Assemble(size)}
		if err := m.count(who, u, overhead); err != nil {
			return nil, err
		}
		who.uploads[hash] = u
	}
	u.active = true
	return u, nil
}

// end closes an upload: to go on with it later, or for good.
func (m *members) end(who *member, hash store.Hash, u *upload, keep bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u.active, u.touched = false, time.Now()
	if !keep || u.assembly.Len() == 0 {
		m.drop(who, hash)
	}
}

// held returns how many bytes of a blob are here from a key's upload that broke off.
func (m *members) held(who *member, hash store.Hash) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := who.uploads[hash]
	switch {
	case u == nil:
		return 0, nil
	case u.active:
		return 0, errBusy // its call may not have noticed yet that the other end is gone
	}
	return uint64(u.assembly.Len()), nil
}

var errBusy = status.Error(codes.Aborted, "this blob is being put already")
