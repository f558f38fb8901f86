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
// The file has a number, which the database has too: with every transaction it grows by one in both. So a file that is
// missing, or is a copy from another time, is found out. The file of the transaction before is no damage: the process
// died before it emptied the file, whose records the database has.
//
// A batch is a frame: a head, with the number of its first record, its length and a checksum of both and one of the
// rest, and the records as in a segment. It starts at a sector. A power cut can leave a frame without some of its
// sectors, which then read as zero: such a frame was never acknowledged and counts as not there. Any other one whose
// checksums differ was damaged.
type wal struct {
	path   string
	file   *os.File // nil while it is not in use
	number uint64   // 0 while it is not in use
	end    int64    // of the last frame: where the next one goes
	broken bool     // takes no frames: a write failed
}

var errFull = errors.New("the write-ahead file is full")

const (
	walSize   = 1 << 20
	sector    = 512 // the first one holds the number
	frameHead = 8 + 4 + 2*sumSize
)

// open opens the file of a journal whose database holds the records up to stored, and returns the records behind those,
// sealed. What lies there when none is in use does not matter.
func (w *wal) open(stored uint64) ([][]byte, error) {
	if w.number == 0 {
		return nil, nil
	}
	tail, err := w.read(stored)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(w.path), err)
	}
	return tail, nil
}

func (w *wal) read(stored uint64) ([][]byte, error) {
	info, err := os.Stat(w.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("it is missing, with the records from %d on: %w", stored+1, ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() != walSize {
		return nil, fmt.Errorf("it is no file of %d bytes: %w", walSize, ErrDamaged)
	}
	if w.file, err = os.OpenFile(w.path, os.O_RDWR|writeThrough, 0); err != nil {
		return nil, err
	}
	b := make([]byte, walSize)
	if _, err := io.ReadFull(w.file, b); err != nil {
		return nil, err
	}
	w.end = walSize
	body, ok := unseal('n', 0, b[:sumSize+8])
	switch {
	case ok && binary.BigEndian.Uint64(body) == w.number:
		return w.load(b, stored)
	case ok && binary.BigEndian.Uint64(body)+1 == w.number:
		return nil, w.begin(w.number)
	}
	return nil, fmt.Errorf("it is from another time than the database, and the records from %d on are missing: %w", stored+1, ErrDamaged)
}

// load reads all frames and clears what an interrupted write left behind them.
func (w *wal) load(b []byte, stored uint64) (tail [][]byte, err error) {
	next, end := stored+1, sector
	for end+frameHead <= len(b) && !zero(b[end:end+frameHead]) {
		first, list, size, err := readFrame(b[end:])
		if err != nil {
			return nil, fmt.Errorf("batch at byte %d: %w", end, err)
		}
		if list == nil || first < next {
			break // torn, or left by an interrupted begin
		}
		if first != next {
			return nil, fmt.Errorf("record %d: missing: %w", next, ErrDamaged)
		}
		tail = append(tail, list...)
		next, end = first+uint64(len(list)), end+size
	}
	w.end = int64(end)
	if zero(b[end:]) {
		return tail, nil
	}
	for at := end + sector; at < len(b); at += sector {
		if head, ok := unseal('h', 0, b[at:at+frameHead]); ok && binary.BigEndian.Uint64(head) >= next {
			return nil, fmt.Errorf("record %d: missing before the batch at byte %d: %w", next, at, ErrDamaged)
		}
	}
	return tail, w.write(zeros[end:], w.end)
}

// readFrame returns the records of the frame at the start of b and the bytes it takes, no records for a torn one.
func readFrame(b []byte) (first uint64, list [][]byte, size int, err error) {
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
	if w.broken || w.end+int64(padded(len(frame))) > walSize {
		return errFull
	}
	err := w.write(frame, w.end)
	if err != nil {
		w.broken = w.write(zeros[:padded(len(frame))], w.end) != nil
		return err
	}
	w.end += int64(padded(len(frame)))
	return nil
}

// create makes the file, empty and with its number. It is in use once the database has the number too.
func (w *wal) create(number uint64) error {
	file, err := os.OpenFile(w.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|writeThrough, 0o600)
	if err != nil {
		return err
	}
	w.close()
	w.file, w.end = file, walSize
	if err := w.empty(number); err != nil {
		return errors.Join(err, file.Truncate(0)) // a full disk gets its room back
	}
	return syncFolder(filepath.Dir(w.path))
}

// next is the number of the file after a transaction: none when it cannot be used.
func (w *wal) next() uint64 {
	if w.number == 0 || w.broken {
		return 0
	}
	return w.number + 1
}

// begin empties the file, whose records are in the database now, and gives it a number, the database's.
func (w *wal) begin(number uint64) error {
	w.number = number
	if number == 0 {
		return nil
	}
	err := w.empty(number)
	w.broken = err != nil
	return err
}

func (w *wal) empty(number uint64) error {
	b := make([]byte, w.end)
	copy(b, sealNumber(number))
	err := w.write(b, 0)
	if err == nil {
		w.end = sector
	}
	return err
}

func sealNumber(number uint64) []byte {
	return seal('n', 0, binary.BigEndian.AppendUint64(nil, number))
}

func (w *wal) write(b []byte, at int64) error {
	if _, err := w.file.WriteAt(b, at); err != nil {
		return err
	}
	return flush(w.file)
}

func (w *wal) close() error {
	if w.file == nil {
		return nil
	}
	file := w.file
	w.file = nil
	return file.Close()
}

// remove deletes the file, if there is one: nothing is in it.
func (w *wal) remove() error {
	if w.file == nil {
		return nil
	}
	return errors.Join(w.close(), os.Remove(w.path))
}

// padded is the room that n bytes take when the next ones start at a sector.
func padded(n int) int { return (n + sector - 1) / sector * sector }

// zeros is what the file consists of behind its last frame.
var zeros [walSize]byte

func zero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }
