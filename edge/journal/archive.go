package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	bolt "go.etcd.io/bbolt"
)

// A segment is a compressed file beside the journal with the records first to last, each as length and stored form. It
// is complete and synced before the journal names it, and only then do its records leave the journal: whatever stops
// the process, every record is in one place at least.

// Archive bounds the journal file: snapshots older than before lose their state, save the newest snapshot, and records
// that are older than before and not needed by any snapshot left move to a segment. Read still finds them.
func (f *File) Archive(before uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	oldest, drop, err := f.keep(before)
	if err != nil || oldest == 0 {
		return err
	}
	first, last := f.archived+1, min(before-1, oldest)
	if last >= first {
		if err := f.writeSegment(first, last); err != nil {
			return fmt.Errorf("archive records %d to %d of journal %s: %w", first, last, f.path, err)
		}
	}
	err = f.change("archive", func(tx *bolt.Tx) error {
		for _, s := range drop {
			s.State = nil
			if err := tx.Bucket(snapshotBucket).Put(key(s.Seq), encodeSnapshot(s)); err != nil {
				return err
			}
		}
		if last < first {
			return nil
		}
		for seq := first; seq <= last; seq++ {
			if err := tx.Bucket(recordBucket).Delete(key(seq)); err != nil {
				return err
			}
		}
		return tx.Bucket(segmentBucket).Put(key(last), seal('a', last, key(first)))
	})
	if err == nil && last >= first {
		f.archived = last
	}
	return err
}

// keep returns the oldest snapshot to keep, 0 if there is none to speak of, and those to drop.
func (f *File) keep(before uint64) (oldest uint64, drop []Snapshot, err error) {
	latest, ok, err := f.LatestSnapshot()
	if err != nil || !ok || before == 0 {
		return 0, nil, err
	}
	err = f.Snapshots(func(s Snapshot) error {
		switch {
		case s.Seq < before && s.Seq != latest.Seq:
			if s.State != nil {
				drop = append(drop, s)
			}
		case oldest == 0:
			oldest = s.Seq
		}
		return nil
	})
	return oldest, drop, err
}

func (f *File) segmentPath(first, last uint64) string {
	return fmt.Sprintf("%s.%d-%d.zst", f.path, first, last)
}

// writeSegment writes the records to their segment file, durably.
func (f *File) writeSegment(first, last uint64) error {
	path := f.segmentPath(first, last)
	temp, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	z, err := zstd.NewWriter(temp, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	for next := first; next <= last; {
		chunk, err := f.readSome(next, last)
		if err != nil {
			return err
		}
		for _, r := range chunk {
			b := encodeRecord(r)
			if _, err := z.Write(append(binary.AppendUvarint(nil, uint64(len(b))), b...)); err != nil {
				return err
			}
		}
		next += uint64(len(chunk))
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// readSegment calls fn with the records from next to the end of the segment that holds it, and returns the one after.
func (f *File) readSegment(next uint64, fn func(Record) error) (uint64, error) {
	var first, last uint64
	err := f.view(func(tx *bolt.Tx) error {
		k, v := tx.Bucket(segmentBucket).Cursor().Seek(key(next))
		last = sequence(k)
		body, ok := unseal('a', last, v)
		if first = sequence(body); !ok || first == 0 || first > next {
			return fmt.Errorf("record %d: its segment is not listed: %w", next, ErrDamaged)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	path := f.segmentPath(first, last)
	file, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("record %d: %v: %w", next, err, ErrDamaged)
	}
	defer file.Close()
	z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(4*MaxEvent))
	if err != nil {
		return 0, err
	}
	defer z.Close()
	r := bufio.NewReader(z)
	for seq := first; seq <= last; seq++ {
		record, err := readRecord(r, seq)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", path, err)
		}
		if seq < next {
			continue
		}
		if err := fn(record); err != nil {
			return 0, err
		}
	}
	return last + 1, nil
}

func readRecord(r *bufio.Reader, seq uint64) (Record, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil || n > recordHead+MaxEvent {
		return Record{}, fmt.Errorf("record %d: unreadable: %w", seq, ErrDamaged)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return Record{}, fmt.Errorf("record %d: %v: %w", seq, err, ErrDamaged)
	}
	return decodeRecord(seq, b)
}

// cleanSegments removes what an interrupted Archive left: unfinished files, and segments that the journal does not name
// although it still holds their records.
func (f *File) cleanSegments() error {
	dir, prefix := filepath.Dir(f.path), filepath.Base(f.path)+"."
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		rest, ok := strings.CutPrefix(file.Name(), prefix)
		if !ok {
			continue
		}
		var first, last uint64
		if name, unfinished := strings.CutSuffix(rest, ".zst.new"); unfinished {
			_, err = fmt.Sscanf(name, "%d-%d", &first, &last)
		} else if name, ok := strings.CutSuffix(rest, ".zst"); ok {
			if _, err = fmt.Sscanf(name, "%d-%d", &first, &last); first <= f.archived || last > f.last {
				continue
			}
		} else {
			continue
		}
		if err == nil && first > 0 {
			err = os.Remove(filepath.Join(dir, file.Name()))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
