package node

import (
	"context"
	"slices"
	"testing"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/protocol/message"
)

// counted is a store that counts how often it is asked for a size.
type counted struct {
	*store.Memory
	asked int
}

func (c *counted) Size(ctx context.Context, h store.Hash) (uint64, error) {
	c.asked++
	return c.Memory.Size(ctx, h)
}

func TestAReceiptThatNamesABlobOftenHasItLookedAtOnce(t *testing.T) {
	blobs, blob := &counted{Memory: store.NewMemory(1 << 10)}, message.NewBlob([]byte("tiny"))
	if _, err := blobs.Put(t.Context(), blob); err != nil {
		t.Fatal(err)
	}
	h := &Hub{HubConfig: HubConfig{Blobs: blobs}}
	often := slices.Repeat([]*message.BlobRef{blob.Ref()}, 1000)
	longer := blob.Ref()
	longer.Size++
	for _, c := range []struct {
		claim   string
		kind    message.TaskKind
		outputs []*message.BlobRef
		fine    bool
	}{
		{"a share", message.TaskKind_SHARE, often, true},
		{"a share with another size of the same", message.TaskKind_SHARE, append(slices.Clone(often), longer), false},
		{"a forward of one", message.TaskKind_FORWARD, often[:1], true},
		{"a forward of many", message.TaskKind_FORWARD, often, false},
	} {
		blobs.asked = 0
		err := h.checkStored(t.Context(), &message.Receipt{Task: &message.TaskID{Kind: c.kind}, Outputs: c.outputs})
		if fine := err == nil; fine != c.fine || blobs.asked > 1 {
			t.Errorf("%s: asked %d times, %v", c.claim, blobs.asked, err)
		}
	}
}
