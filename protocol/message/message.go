// Package message is the schema of everything that participants exchange, and the hashes and signatures over it.
//
// The types are generated from message.proto. No message holds a map or a float that is not a plain field, so the
// deterministic encoding of a value is unique: hashes and signatures are taken over it.
package message

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"
	"google.golang.org/protobuf/proto"
)

// MaxSize bounds an encoded message in bytes. Tensors travel as blobs, so nothing honest comes near it.
const MaxSize = 4 << 20

// Encode returns the one encoding of m.
func Encode(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		// Only a string with invalid UTF-8 can fail, and Decode lets none in.
		panic(fmt.Sprintf("message: encode %T: %v", m, err))
	}
	return b
}

// Decode reads b into m. It refuses more than MaxSize bytes.
func Decode(b []byte, m proto.Message) error {
	if len(b) > MaxSize {
		return fmt.Errorf("message of %d bytes: more than %d are not accepted", len(b), MaxSize)
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return fmt.Errorf("decode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return nil
}

// Hash is the BLAKE3 hash of m's encoding.
func Hash(m proto.Message) []byte {
	h := blake3.Sum256(Encode(m))
	return h[:]
}

// HashBytes is the BLAKE3 hash of b.
func HashBytes(b []byte) []byte {
	h := blake3.Sum256(b)
	return h[:]
}

// Same reports whether two references name the same bytes.
func (r *BlobRef) Same(o *BlobRef) bool {
	return bytes.Equal(r.GetHash(), o.GetHash()) && r.GetSize() == o.GetSize()
}

// Sign encodes a receipt and signs it with the miner's key.
func Sign(key ed25519.PrivateKey, r *Receipt) *Result {
	b := Encode(r)
	return &Result{Receipt: b, Signature: ed25519.Sign(key, b)}
}

// Verify reports whether the result was signed by the miner whose public key is given.
func (r *Result) Verify(miner []byte) bool {
	return len(miner) == ed25519.PublicKeySize && ed25519.Verify(miner, r.GetReceipt(), r.GetSignature())
}

// Open decodes the receipt inside.
func (r *Result) Open() (*Receipt, error) {
	var receipt Receipt
	if err := Decode(r.GetReceipt(), &receipt); err != nil {
		return nil, err
	}
	if receipt.Task == nil {
		return nil, fmt.Errorf("receipt names no task")
	}
	return &receipt, nil
}

// Short is the form of a miner's public key that people read: its first eight hexadecimal digits.
func Short(miner []byte) string {
	return hex.EncodeToString(miner[:min(4, len(miner))])
}

// Key is a TaskID as a comparable value, for use in maps.
type Key struct {
	Kind         TaskKind
	Epoch, Batch uint64
	Stage, Shard uint32
}

// Key returns the comparable form of the ID.
func (t *TaskID) Key() Key {
	return Key{t.GetKind(), t.GetEpoch(), t.GetBatch(), t.GetStage(), t.GetShard()}
}

// ID returns the message form of the key.
func (k Key) ID() *TaskID {
	return &TaskID{Kind: k.Kind, Epoch: k.Epoch, Batch: k.Batch, Stage: k.Stage, Shard: k.Shard}
}

// Compare orders keys: by epoch, then kind, micro-batch, stage and shard.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Epoch, o.Epoch), cmp.Compare(k.Kind, o.Kind), cmp.Compare(k.Batch, o.Batch),
		cmp.Compare(k.Stage, o.Stage), cmp.Compare(k.Shard, o.Shard))
}

// String names the task as logs and refusals show it.
func (k Key) String() string {
	switch k.Kind {
	case TaskKind_FORWARD, TaskKind_LOSS, TaskKind_BACKWARD, TaskKind_EVALUATE:
		return fmt.Sprintf("%s of micro-batch %d in stage %d, epoch %d", kindNames[k.Kind], k.Batch, k.Stage, k.Epoch)
	case TaskKind_REDUCE:
		return fmt.Sprintf("reduce of shard %d of stage %d, epoch %d", k.Shard, k.Stage, k.Epoch)
	case TaskKind_REPLAY:
		return fmt.Sprintf("replay of audit %d, stage %d, epoch %d", k.Batch, k.Stage, k.Epoch)
	case TaskKind_STEP:
		return fmt.Sprintf("step %d of stage %d, epoch %d", k.Batch, k.Stage, k.Epoch)
	}
	return fmt.Sprintf("%s of stage %d, epoch %d", kindNames[k.Kind], k.Stage, k.Epoch)
}

var kindNames = map[TaskKind]string{
	TaskKind_LOAD: "load", TaskKind_FORWARD: "forward", TaskKind_LOSS: "loss", TaskKind_BACKWARD: "backward",
	TaskKind_EVALUATE: "evaluation", TaskKind_STEP: "step", TaskKind_SHARE: "share", TaskKind_CLOSE: "close",
	TaskKind_REDUCE: "reduce", TaskKind_INSTALL: "install", TaskKind_UPLOAD: "upload", TaskKind_OUTER: "outer step",
	TaskKind_STATE: "state", TaskKind_REPLAY: "replay",
}
