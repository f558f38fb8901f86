package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// File is a journal on disk. All methods may be called by many goroutines; one File at a time may hold a journal.
type File struct {
	path string
	db   *bolt.DB

	mu       sync.Mutex // held while records or snapshots change
	wal      *wal
	tail     [][]byte // the records in the write-ahead file, sealed: the last ones, which the database lacks
	last     uint64   // seq of the last record, 0 if none
	archived uint64   // seq of the last record in a segment, 0 if none
	closed   bool
}

var (
	recordBucket   = []byte("records")   // seq → sealed record
	snapshotBucket = []byte("snapshots") // seq → sealed snapshot
	segmentBucket  = []byte("segments")  // last seq → sealed first seq
	metaBucket     = []byte("meta")      // "genesis" → sealed genesis, "format" → sealed format, "wal" → sealed number
	genesisKey     = []byte("genesis")
	formatKey      = []byte("format")
	walKey         = []byte("wal")
	format         = []byte("iota journal 1")

	errOtherGenesis = errors.New("journal has another genesis: it belongs to another run")
)

// Open opens the journal at path, or makes an empty one where no file is. It fails with ErrInUse, ErrForeign or
// ErrDamaged, in one line that names the file. Leftovers of an interrupted Archive are cleaned.
func Open(path string) (*File, error) {
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	return f, nil
}

func open(path string) (*File, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, err
		}
	}
	if err := precheck(path); err != nil {
		return nil, err
	}
	db, err := openBolt(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, db: db, wal: &wal{path: path + ".wal"}}
	if err = guard(f.load); err == nil {
		f.tail, err = f.wal.open(f.last)
	}
	if err == nil {
		f.last += uint64(len(f.tail))
		err = f.cleanSegments()
	}
	if err != nil {
		f.wal.close()
		db.Close()
		return nil, err
	}
	return f, nil
}

// create makes an empty journal under a temporary name and links it to path, so that a process killed meanwhile leaves
// none behind, and of two processes that create one both then open the same.
func create(path string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	temp.Close()
	defer os.Remove(temp.Name())
	db, err := openBolt(temp.Name())
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{recordBucket, snapshotBucket, segmentBucket, metaBucket} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(metaBucket).Put(formatKey, seal('f', 0, format))
	})
	if e := db.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		if err := os.Rename(temp.Name(), path); err != nil {
			return err
		}
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// precheck verifies the structure of a file that nobody holds.
func precheck(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return ErrForeign
	}
	for patience := time.Second; held(f); patience -= 20 * time.Millisecond {
		if patience <= 0 {
			return ErrInUse
		}
		time.Sleep(20 * time.Millisecond) // a process that was killed lets go of it in a moment
	}
	if info, err = f.Stat(); err != nil { // who held it may have made it longer
		return err
	}
	return checkPages(f, info.Size())
}

func openBolt(path string) (*bolt.DB, error) {
	options := &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType}
	var file *os.File
	options.OpenFile = func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	}
	var db *bolt.DB
	err := guard(func() (err error) {
		db, err = bolt.Open(path, 0o644, options)
		return err
	})
	if err != nil && file != nil {
		unlock(file) // a panic left it locked, and mapped, so that closing it would not do
		file.Close()
	}
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, ErrInUse
	}
	return db, err
}

// guard calls fn and returns ErrDamaged in place of a panic or memory fault that damaged pages cause below it.
func guard(fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			err = fmt.Errorf("%v: %w", p, ErrDamaged)
		}
	}()
	return fn()
}

// load finds the last record and the archived ones, and verifies that the buckets are those of a journal.
func (f *File) load() error {
	return f.db.View(func(tx *bolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			return ErrForeign
		}
		got, ok := unseal('f', 0, meta.Get(formatKey))
		if !ok || !bytes.Equal(got, format) {
			return fmt.Errorf("unknown format: %w", ErrForeign)
		}
		for _, name := range [][]byte{recordBucket, snapshotBucket, segmentBucket} {
			if tx.Bucket(name) == nil {
				return fmt.Errorf("%s are missing: %w", name, ErrDamaged)
			}
		}
		if b := meta.Get(walKey); b != nil {
			number, ok := unseal('n', 0, b)
			if !ok || len(number) != 8 {
				return fmt.Errorf("number of the write-ahead file: checksum differs: %w", ErrDamaged)
			}
			f.wal.number = binary.BigEndian.Uint64(number)
		}
		if key, _ := tx.Bucket(segmentBucket).Cursor().Last(); key != nil {
			f.archived = sequence(key)
		}
		f.last = f.archived
		if key, _ := tx.Bucket(recordBucket).Cursor().Last(); key != nil {
			f.last = max(f.last, sequence(key))
		}
		return nil
	})
}

func key(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// sequence is the inverse of key; a key of another length, which only damage makes, gives 0.
func sequence(key []byte) uint64 {
	if len(key) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(key)
}

// change runs one durable transaction, which takes the records of the write-ahead file along. On an error, such as a
// full disk, nothing of it is kept, and nothing that was stored is lost.
func (f *File) change(what string, fn func(*bolt.Tx) error) error {
	return f.commit(what, f.wal.next(), fn)
}

// commit is change, after which the write-ahead file has that number.
func (f *File) commit(what string, number uint64, fn func(*bolt.Tx) error) error {
	if f.closed {
		return ErrClosed
	}
	err := guard(func() error {
		return f.db.Update(func(tx *bolt.Tx) error {
			if err := putRecords(tx, f.stored()+1, f.tail); err != nil {
				return err
			}
			if number != f.wal.number {
				if err := tx.Bucket(metaBucket).Put(walKey, sealNumber(number)); err != nil {
					return err
				}
			}
			return fn(tx)
		})
	})
	if err != nil {
		return fmt.Errorf("%s to journal %s: %w", what, f.path, err)
	}
	f.tail = nil
	_ = f.wal.begin(number) // on an error it takes no more frames, and the next transaction gives it up
	return nil
}

// startWAL puts the write-ahead file into use, unless it is.
func (f *File) startWAL() error {
	if f.wal.number != 0 {
		return nil
	}
	number := rand.Uint64()/2 + 1 // no copy of an earlier file has it
	if err := f.wal.create(number); err != nil {
		return err
	}
	return f.commit("begin the write-ahead file", number, func(*bolt.Tx) error { return nil })
}

// stored is the seq of the last record in the database or in a segment.
func (f *File) stored() uint64 { return f.last - uint64(len(f.tail)) }

// view runs a read-only transaction.
func (f *File) view(fn func(*bolt.Tx) error) error {
	err := guard(func() error { return f.db.View(fn) })
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	if err != nil {
		return fmt.Errorf("read journal %s: %w", f.path, err)
	}
	return nil
}

// Close releases the journal. Closing it twice is no error.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	var err error
	if f.wal.number != 0 {
		err = f.commit("add the last records", 0, func(*bolt.Tx) error { return nil })
	}
	f.closed = true
	if err == nil {
		err = f.wal.remove()
	}
	return errors.Join(err, f.wal.close(), f.db.Close())
}
