package journal

import (
	"bytes"
	"fmt"
	"sync"
)

// Memory is a journal in this process, for simulations and tests. All methods may be called by many goroutines.
type Memory struct {
	mu        sync.Mutex
	genesis   []byte
	records   []Record
	snapshots []Snapshot
	closed    bool
}

// NewMemory returns an empty journal.
func NewMemory() *Memory { return &Memory{} }

// WriteGenesis is File.WriteGenesis.
func (m *Memory) WriteGenesis(b []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if m.genesis == nil {
		m.genesis = append([]byte{}, b...)
	} else if !bytes.Equal(m.genesis, b) {
		return errOtherGenesis
	}
	return nil
}

// Genesis is File.Genesis.
func (m *Memory) Genesis() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	return bytes.Clone(m.genesis), nil
}

// Append is File.Append.
func (m *Memory) Append(batch []Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if err := checkBatch(uint64(len(m.records)), batch); err != nil {
		return err
	}
	for _, r := range batch {
		r.Event = append([]byte{}, r.Event...)
		m.records = append(m.records, r)
	}
	return nil
}

// LastSeq is File.LastSeq.
func (m *Memory) LastSeq() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(len(m.records))
}

// Read is File.Read.
func (m *Memory) Read(from uint64, fn func(Record) error) error {
	for seq := max(from, 1); ; seq++ {
		m.mu.Lock()
		if m.closed {
			m.mu.Unlock()
			return ErrClosed
		}
		if seq > uint64(len(m.records)) {
			m.mu.Unlock()
			return nil
		}
		r := m.records[seq-1]
		m.mu.Unlock()
		r.Event = append([]byte{}, r.Event...)
		if err := fn(r); err != nil {
			return err
		}
	}
}

// WriteSnapshot is File.WriteSnapshot.
func (m *Memory) WriteSnapshot(s Snapshot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if s.Seq > uint64(len(m.records)) {
		return fmt.Errorf("snapshot %d: the last record is %d", s.Seq, len(m.records))
	}
	if n := len(m.snapshots); n > 0 && m.snapshots[n-1].Seq >= s.Seq {
		return fmt.Errorf("snapshot %d: there is a later one, %d", s.Seq, m.snapshots[n-1].Seq)
	}
	s.State = append([]byte{}, s.State...)
	m.snapshots = append(m.snapshots, s)
	return nil
}

// LatestSnapshot is File.LatestSnapshot.
func (m *Memory) LatestSnapshot() (Snapshot, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return Snapshot{}, false, ErrClosed
	}
	if len(m.snapshots) == 0 {
		return Snapshot{}, false, nil
	}
	s := m.snapshots[len(m.snapshots)-1]
	s.State = bytes.Clone(s.State)
	return s, true, nil
}

// Snapshots is File.Snapshots.
func (m *Memory) Snapshots(fn func(Snapshot) error) error {
	m.mu.Lock()
	all := append([]Snapshot{}, m.snapshots...)
	closed := m.closed
	m.mu.Unlock()
	if closed {
		return ErrClosed
	}
	for _, s := range all {
		s.State = bytes.Clone(s.State)
		if err := fn(s); err != nil {
			return err
		}
	}
	return nil
}

// Archive is File.Archive; the records stay where they are.
func (m *Memory) Archive(before uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	for i := range m.snapshots {
		if i < len(m.snapshots)-1 && m.snapshots[i].Seq < before {
			m.snapshots[i].State = nil
		}
	}
	return nil
}

// Close is File.Close.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
