package journal

import (
	"bytes"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// WriteGenesis stores the run's genesis. It can be written once: the same bytes again are no error, others are.
func (f *File) WriteGenesis(b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.change("write genesis", func(tx *bolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if old := meta.Get(genesisKey); old != nil {
			if body, ok := unseal('g', 0, old); !ok || !bytes.Equal(body, b) {
				return errOtherGenesis
			}
			return nil
		}
		return meta.Put(genesisKey, seal('g', 0, b))
	})
}

// Genesis returns the run's genesis, or nil when none was written.
func (f *File) Genesis() (b []byte, err error) {
	err = f.view(func(tx *bolt.Tx) error {
		old := tx.Bucket(metaBucket).Get(genesisKey)
		if old == nil {
			return nil
		}
		body, ok := unseal('g', 0, old)
		if !ok {
			return fmt.Errorf("genesis: checksum differs: %w", ErrDamaged)
		}
		b = append([]byte{}, body...)
		return nil
	})
	return b, err
}

// Append makes the batch durable as a whole. The records must continue the journal's sequence. On an error none of them
// is stored, unless the disk failed both a write and its undoing: then all or none are there at the next Open.
func (f *File) Append(batch []Record) error {
	if len(batch) == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	if err := checkBatch(f.last, batch); err != nil {
		return err
	}
	sealed := make([][]byte, len(batch))
	for i, r := range batch {
		sealed[i] = encodeRecord(r)
	}
	first, last := batch[0].Seq, batch[len(batch)-1].Seq
	what := fmt.Sprintf("append records %d to %d", first, last)
	if f.startWAL() == nil && f.wal.append(frame(first, sealed)) == nil {
		f.tail = append(f.tail, sealed...)
	} else if err := f.change(what, func(tx *bolt.Tx) error { return putRecords(tx, first, sealed) }); err != nil {
		return err
	}
	f.last = last
	return nil
}

// putRecords stores sealed records, of which the first has number first.
func putRecords(tx *bolt.Tx, first uint64, sealed [][]byte) error {
	records := tx.Bucket(recordBucket)
	records.FillPercent = 0.95 // keys only grow
	for i, r := range sealed {
		if err := records.Put(key(first+uint64(i)), r); err != nil {
			return err
		}
	}
	return nil
}

// LastSeq returns the sequence number of the last record, 0 when there is none.
func (f *File) LastSeq() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// readChunk bounds the bytes of events that Read holds at a time, but for one event.
const readChunk = 4 << 20

// Read calls fn with every record from seq on, in order, archived ones first, and stops at fn's first error. The event
// is fn's to keep. A record that is damaged or missing gives ErrDamaged, by its number. fn may append to the journal,
// and sees what it appended.
func (f *File) Read(from uint64, fn func(Record) error) error {
	next := max(from, 1)
	for {
		f.mu.Lock()
		last, stored, archived, tail, closed := f.last, f.stored(), f.archived, f.tail, f.closed
		f.mu.Unlock()
		if closed {
			return ErrClosed
		}
		if next <= archived {
			var err error
			if next, err = f.readSegment(next, fn); err != nil {
				return err
			}
			continue
		}
		var chunk []Record
		var err error
		if next <= stored {
			chunk, err = f.readSome(next, stored)
		} else if next <= last {
			chunk, err = decodeAll(next, tail[next-stored-1:])
		}
		for _, r := range chunk {
			if err := fn(r); err != nil {
				return err
			}
		}
		if err != nil || next > last {
			return err
		}
		next += uint64(len(chunk))
	}
}

// decodeAll returns sealed records, of which the first has number first.
func decodeAll(first uint64, sealed [][]byte) (list []Record, err error) {
	for i, b := range sealed {
		r, err := decodeRecord(first+uint64(i), b)
		if err != nil {
			return list, err
		}
		list = append(list, r)
	}
	return list, nil
}

// readSome returns records next and following as far as last, at most readChunk bytes of them, but one at least. With
// an error come the good records before the damaged one. It returns none, without error, when they were archived since.
func (f *File) readSome(next, last uint64) (chunk []Record, err error) {
	err = f.view(func(tx *bolt.Tx) error {
		if k, _ := tx.Bucket(segmentBucket).Cursor().Last(); k != nil && sequence(k) >= next {
			return nil
		}
		c, size := tx.Bucket(recordBucket).Cursor(), 0
		for k, v := c.Seek(key(next)); next <= last && size < readChunk; k, v = c.Next() {
			if k == nil || sequence(k) != next {
				return fmt.Errorf("record %d: missing: %w", next, ErrDamaged)
			}
			r, err := decodeRecord(next, v)
			if err != nil {
				return err
			}
			chunk, size, next = append(chunk, r), size+len(v), next+1
		}
		return nil
	})
	return chunk, err
}

// WriteSnapshot stores the state after record s.Seq, which must be there, and newer than every other snapshot.
func (f *File) WriteSnapshot(s Snapshot) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.Seq > f.last {
		return fmt.Errorf("snapshot %d: the last record is %d", s.Seq, f.last)
	}
	if s.State == nil {
		s.State = []byte{}
	}
	return f.change(fmt.Sprintf("write snapshot %d", s.Seq), func(tx *bolt.Tx) error {
		snapshots := tx.Bucket(snapshotBucket)
		if k, _ := snapshots.Cursor().Last(); k != nil && sequence(k) >= s.Seq {
			return fmt.Errorf("there is a later one, %d", sequence(k))
		}
		return snapshots.Put(key(s.Seq), encodeSnapshot(s))
	})
}

// LatestSnapshot returns the newest snapshot, and false when there is none.
func (f *File) LatestSnapshot() (s Snapshot, ok bool, err error) {
	err = f.view(func(tx *bolt.Tx) (err error) {
		k, v := tx.Bucket(snapshotBucket).Cursor().Last()
		if ok = k != nil; ok {
			s, err = decodeSnapshot(sequence(k), v)
		}
		return err
	})
	if err != nil {
		return Snapshot{}, false, err
	}
	return s, ok, nil
}

// Snapshots calls fn with every snapshot in order, archived ones (State nil) included, and stops at its first error.
func (f *File) Snapshots(fn func(Snapshot) error) error {
	for next := uint64(0); ; {
		var s Snapshot
		var ok bool
		err := f.view(func(tx *bolt.Tx) (err error) {
			k, v := tx.Bucket(snapshotBucket).Cursor().Seek(key(next))
			if ok = k != nil; ok {
				s, err = decodeSnapshot(sequence(k), v)
			}
			return err
		})
		if err != nil || !ok {
			return err
		}
		if err := fn(s); err != nil {
			return err
		}
		next = s.Seq + 1
	}
}
