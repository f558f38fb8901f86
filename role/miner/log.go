package miner

import (
	"crypto/ed25519"
	"slices"

	"github.com/iota-train/iota/protocol/message"
)

// log signs receipts, chains each to the one before, and keeps the latest results for tasks that are sent again.
type log struct {
	manifest []byte // hash
	numerics string
	session  []byte
	key      ed25519.PrivateKey
	previous []byte // hash of the last receipt, empty at the start of a session

	kept []done // oldest first
	most int
}

// taskName is a task and its attempt.
type taskName struct {
	message.Key
	attempt uint32
}

// done is a result that may have to be given again.
type done struct {
	name    taskName
	result  *message.Result
	outputs []message.Blob
}

// newLog returns an empty log.
func newLog(manifest *message.Manifest, key ed25519.PrivateKey, session []byte, slots int) log {
	return log{manifest: message.Hash(manifest), numerics: manifest.GetNumerics(), session: slices.Clone(session), key: key, most: kept(slots)}
}

// kept is the number of results that a log keeps: those of forward and backward of a micro-batch in each slot, and some
// of other tasks.
func kept(slots int) int { return 2*slots + 8 }

// find returns the result of a task that was done.
func (l *log) find(name taskName) (done, bool) {
	for i := len(l.kept) - 1; i >= 0; i-- {
		if l.kept[i].name == name {
			return l.kept[i], true
		}
	}
	return done{}, false
}

// forget drops the kept results: those of an epoch that is over.
func (l *log) forget() {
	clear(l.kept)
	l.kept = l.kept[:0]
}

// add completes, signs and chains a receipt, and keeps the result if it answers a task.
func (l *log) add(name taskName, r *message.Receipt, outputs []message.Blob) *message.Result {
	result := l.sign(r)
	if len(l.kept) == l.most {
		l.kept = slices.Delete(l.kept, 0, 1)
	}
	l.kept = append(l.kept, done{name, result, outputs})
	return result
}

func (l *log) sign(r *message.Receipt) *message.Result {
	r.Manifest, r.Session, r.Previous, r.Numerics = l.manifest, l.session, l.previous, l.numerics
	result := message.Sign(l.key, r)
	l.previous = message.HashBytes(result.GetReceipt())
	return result
}
