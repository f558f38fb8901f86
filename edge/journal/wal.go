package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// wal is the write-ahead file beside a journal. It holds the batches that are durable but not yet in the database: one
// write that reaches the disk, where a transaction takes two and rewrites pages. The next transaction takes them along,
// and the file starts anew. From the first batch to a clean end it has its full size and is zero behind the last one: a
// write into blocks that were written before changes no metadata, which makes it twice as fast.
//
// A batch is a frame: a head, with the number of its first record, its length and a checksum of both and one of the
// rest, and the records as in a segment. It starts at a sector. A power cut can leave a frame without some of its
// sectors, which then read as zero: such a frame was never acknowledged and counts as not there. Any other one whose
// checksums differ was damaged.
type wal struct {
	path string
	file *os.File // nil before the first batch
	made bool     // the file has its full size
	end  int64    // of the last frame: where the next one goes
	full bool     // takes no frames until reset: a write failed
}

var errFull = errors.New("the write-ahead file is full")

const (
	walSize   = 1 << 20
	sector    = 512
	frameHead = 8 + 4 + 2*sumSize
)

// openWAL opens the write-ahead file of a journal whose database holds the records up to stored, and returns the
// records behind those, sealed.
func openWAL(path string, stored uint64) (*wal, [][]byte, error) {
	w := &wal{path: path}
	file, err := os.OpenFile(path, os.O_RDWR|writeThrough, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	w.file = file
	tail, err := w.load(stored)
	if err == nil {
		err = syncFolder(filepath.Dir(path)) // the process that made the file may have died before it did
	}
	if err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return w, tail, nil
}

// load reads all frames and clears what an interrupted write left behind them.
func (w *wal) load(stored uint64) (tail [][]byte, err error) {
	b, err := io.ReadAll(io.LimitReader(w.file, walSize+1))
	if err != nil {
		return nil, err
	}
	if len(b) != walSize {
		if zero(b) {
			return nil, nil // the process died while it made the file
		}
		return nil, fmt.Errorf("its size is not %d bytes: %w", walSize, ErrDamaged)
	}
	w.made = true
	next := stored + 1
	for w.end+frameHead <= int64(len(b)) && !zero(b[w.end:w.end+frameHead]) {
		first, list, size, err := readFrame(b[w.end:])
		if err != nil {
			return nil, fmt.Errorf("batch at byte %d: %w", w.end, err)
		}
		if list == nil {
			break // torn
		}
		if w.end == 0 && first <= stored {
			next = first // the database has it, and the process died before it emptied the file
		}
		if first != next {
			return nil, fmt.Errorf("record %d: missing: %w", next, ErrDamaged)
		}
		for i, r := range list {
			if first+uint64(i) > stored {
				tail = append(tail, r)
			}
		}
		next, w.end = first+uint64(len(list)), w.end+size
	}
	if len(tail) == 0 {
		next, w.end = stored+1, 0 // whatever else is in the file, the database has
	}
	return tail, w.endAt(b, next)
}

// endAt verifies that the file ends where the last good frame does, before record next, and clears what an interrupted
// write or reset left behind it.
func (w *wal) endAt(b []byte, next uint64) error {
	if zero(b[w.end:]) {
		return nil
	}
	for at := int(w.end) + sector; at < len(b); at += sector {
		if head, ok := unseal('h', 0, b[at:at+frameHead]); ok && binary.BigEndian.Uint64(head) >= next {
			return fmt.Errorf("record %d: missing before the batch at byte %d: %w", next, at, ErrDamaged)
		}
	}
	return w.clear(w.end, walSize)
}

// readFrame returns the records of the frame at the start of b and the bytes it takes, no records for a torn one.
func readFrame(b []byte) (first uint64, list [][]byte, size int64, err error) {
	head, ok := unseal('h', 0, b[:frameHead])
	first, length := binary.BigEndian.Uint64(head), int(binary.BigEndian.Uint32(head[8:]))
	if !ok || length > len(b)-frameHead {
		return 0, nil, 0, fmt.Errorf("its head is wrong: %w", ErrDamaged)
	}
	whole, sum := b[:frameHead+length], head[12:]
	body := whole[frameHead:]
	if want := checksum('w', first, body); !bytes.Equal(sum, want[:]) {
		for from := sector; from < len(whole); from += sector {
			if zero(whole[from:min(from+sector, len(whole))]) {
				return 0, nil, 0, nil
			}
		}
		return 0, nil, 0, fmt.Errorf("checksum differs: %w", ErrDamaged)
	}
	for len(body) > 0 {
		n, used := binary.Uvarint(body)
		if used <= 0 || n > uint64(len(body)-used) {
			return 0, nil, 0, fmt.Errorf("unreadable: %w", ErrDamaged)
		}
		list = append(list, bytes.Clone(body[used:used+int(n)]))
		body = body[used+int(n):]
	}
	return first, list, padded(len(whole)), nil
}

// frame returns the records, sealed, as a frame.
func frame(first uint64, sealed [][]byte) []byte {
	var body []byte
	for _, r := range sealed {
		body = append(binary.AppendUvarint(body, uint64(len(r))), r...)
	}
	head := binary.BigEndian.AppendUint64(nil, first)
	head = binary.BigEndian.AppendUint32(head, uint32(len(body)))
	sum := checksum('w', first, body)
	return append(seal('h', 0, append(head, sum[:]...)), body...)
}

// append makes a frame durable. After an error, such as for lack of room in the file, it is not there.
func (w *wal) append(frame []byte) error {
	if w.full || w.end+padded(len(frame)) > walSize {
		return errFull
	}
	if err := w.create(); err != nil {
		return err
	}
	_, err := w.file.WriteAt(frame, w.end)
	if err == nil {
		err = flush(w.file)
	}
	if err != nil {
		w.full = w.clear(w.end, w.end+padded(len(frame))) != nil
		return err
	}
	w.end += padded(len(frame))
	return nil
}

// create makes the file with its full size, before the first frame.
func (w *wal) create() (err error) {
	if w.made {
		return nil
	}
	if w.file == nil {
		if w.file, err = os.OpenFile(w.path, os.O_RDWR|os.O_CREATE|writeThrough, 0o644); err != nil {
			return err
		}
	}
	if err = w.clear(0, walSize); err != nil {
		return errors.Join(err, w.file.Truncate(0))
	}
	if err = syncFolder(filepath.Dir(w.path)); err != nil {
		return err
	}
	w.made = true
	return nil
}

// reset empties the file, whose records are in the database now. Where that fails, it takes no more frames.
func (w *wal) reset() {
	if w.end == 0 && !w.full {
		return
	}
	to := w.end
	if w.full {
		to = walSize
	}
	if w.full = w.clear(0, to) != nil; !w.full {
		w.end = 0
	}
}

func (w *wal) clear(from, to int64) error {
	if _, err := w.file.WriteAt(zeros[:to-from], from); err != nil {
		return err
	}
	return flush(w.file)
}

func (w *wal) close() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}

// remove closes the file and deletes it, as nothing is in it.
func (w *wal) remove() error {
	if w.file == nil {
		return nil
	}
	return errors.Join(w.file.Close(), os.Remove(w.path))
}

// padded is the room that n bytes take when the next ones start at a sector.
func padded(n int) int64 { return int64(n+sector-1) / sector * sector }

// zeros is what the file consists of behind its last frame.
var zeros [walSize]byte

func zero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }
