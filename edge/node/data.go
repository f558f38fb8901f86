package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/protocol/message"
)

// StoreData stores a run's texts as blobs, for miners that do not have the files, and returns what the manifest has to
// say of them.
func StoreData(ctx context.Context, blobs Blobs, d *data.Dataset) ([]*message.BlobRef, error) {
	var refs []*message.BlobRef
	for chunk, err := range d.Chunks() {
		if err != nil {
			return nil, fmt.Errorf("store data: %w", err)
		}
		b := message.NewBlob(chunk)
		if _, err := blobs.PutDurable(ctx, b); err != nil {
			return nil, fmt.Errorf("store data: %w", err)
		}
		refs = append(refs, b.Ref())
	}
	return refs, nil
}

// FetchData returns a run's texts from the blobs that its manifest names. It keeps them in a file of that path, one chunk
// in memory at a time, and a later call finds them there; a file that is damaged or of another run is fetched anew.
func FetchData(ctx context.Context, blobs Blobs, d *message.Data, path string) (*data.Dataset, error) {
	tokenizer, err := data.NewTokenizer(d.GetTokenizer())
	if err != nil {
		return nil, fmt.Errorf("the run's data: %w", err)
	}
	var hash [32]byte
	if len(d.GetHash()) != copy(hash[:], d.GetHash()) || len(d.GetHash()) != len(hash) {
		return nil, errors.New("the run's data has no hash")
	}
	if len(d.GetBlobs()) == 0 {
		return nil, errors.New("the run does not offer its data: name the same files with --data")
	}
	if text, err := data.OpenChunks(path, tokenizer, hash); err == nil {
		return text, nil
	} else if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	part := path + ".part"
	if err := fetchChunks(ctx, blobs, d.GetBlobs(), part); err != nil {
		_ = os.Remove(part)
		return nil, fmt.Errorf("fetch data: %w", err)
	}
	if err := os.Rename(part, path); err != nil {
		return nil, fmt.Errorf("fetch data: %w", err)
	}
	return data.OpenChunks(path, tokenizer, hash)
}

// fetchChunks writes blobs to a new file, one behind the other.
func fetchChunks(ctx context.Context, blobs Blobs, refs []*message.BlobRef, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for i, ref := range refs {
		h, ok := hashOf(ref)
		if !ok {
			return fmt.Errorf("chunk %d of %d has no hash", i+1, len(refs))
		}
		b, err := blobs.Get(ctx, h, ref.GetSize())
		if err != nil {
			return fmt.Errorf("chunk %d of %d: %w", i+1, len(refs), err)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
