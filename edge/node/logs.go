package node

import (
	"fmt"

	"github.com/iota-train/iota/edge/journal"
	"github.com/iota-train/iota/protocol/message"
)

// Log is what the journal has of one miner's work in one epoch: its signed receipts, from the LOAD or the INSTALL that
// the epoch began with to the INSTALL that ended it, or as far as they go.
type Log struct {
	Number   int // of the miner, from 1 in order of registration
	Key      []byte
	Epoch    uint64
	Receipts []*message.Receipt
	// States are the blobs of the states that the miner stored for audits, by step; 0 is the private state of the start.
	States map[uint64]*message.BlobRef
	// Unsigned counts receipts whose signature does not hold. The edge lets none in, so that one means a changed journal.
	Unsigned int
	// Ended reports whether the log goes to the INSTALL of the epoch.
	Ended bool
}

// Logs reads every miner's log of every epoch from a journal, in order of their beginnings. A stretch that begins with
// neither LOAD nor INSTALL is left out.
func Logs(j Journal) ([]*Log, error) {
	m, _, err := Genesis(j)
	if err != nil {
		return nil, err
	}
	r := reader{manifest: m, numbers: map[string]int{}, validators: map[string]bool{}, open: map[string]*Log{}, states: map[string]*Log{}}
	err = j.Read(1, func(rec journal.Record) error {
		var event message.Event
		if err := message.Decode(rec.Event, &event); err != nil {
			return fmt.Errorf("event %d: %w", rec.Seq, err)
		}
		r.take(&event)
		return nil
	})
	return r.logs, err
}

// reader cuts the results of a journal into logs.
type reader struct {
	manifest *message.Manifest
	numbers  map[string]int
	open     map[string]*Log // by key
	states   map[string]*Log // by key and epoch
	logs     []*Log

	validators map[string]bool
}

func (r *reader) take(event *message.Event) {
	key := string(event.GetMiner())
	r.register(key, event.GetRegister())
	result := event.GetResult()
	receipt, err := result.Open()
	if result == nil || err != nil || r.numbers[key] == 0 {
		return
	}
	id, fine := receipt.GetTask(), receipt.GetFault() == message.Fault_FAULT_NONE
	switch log := r.open[key]; {
	case id.GetKind() == message.TaskKind_STATE:
		if of := r.states[r.name(key, id.GetEpoch())]; of != nil && fine && len(receipt.GetOutputs()) == 1 {
			of.States[id.GetBatch()] = receipt.GetOutputs()[0]
		}
		return
	case id.GetKind() == message.TaskKind_LOAD && fine:
		r.begin(key, id.GetEpoch())
	case log != nil && id.GetKind() == message.TaskKind_INSTALL && fine:
		log.add(key, result, receipt)
		log.Ended = true
		r.begin(key, id.GetEpoch()+1)
	}
	if log := r.open[key]; log != nil {
		log.add(key, result, receipt)
	}
}

// register numbers the miners as the core does: who was refused has no number.
func (r *reader) register(key string, reg *message.Register) {
	most := int(r.manifest.GetRules().GetMaxMiners())
	switch {
	case reg == nil || r.numbers[key] > 0 || r.validators[key] || reg.GetNumerics() != r.manifest.GetNumerics() || len(reg.GetSession()) != 16:
	case reg.GetRole() == message.Role_VALIDATOR:
		if len(r.validators) < most {
			r.validators[key] = true
		}
	case len(r.numbers) < most:
		r.numbers[key] = len(r.numbers) + 1
	}
}

// begin opens the log of an epoch.
func (r *reader) begin(key string, epoch uint64) {
	log := &Log{Number: r.numbers[key], Key: []byte(key), Epoch: epoch, States: map[uint64]*message.BlobRef{}}
	r.open[key], r.states[r.name(key, epoch)] = log, log
	r.logs = append(r.logs, log)
}

func (r *reader) name(key string, epoch uint64) string { return fmt.Sprintf("%s %d", key, epoch) }

func (l *Log) add(key string, result *message.Result, r *message.Receipt) {
	if !result.Verify([]byte(key)) {
		l.Unsigned++
	}
	l.Receipts = append(l.Receipts, r)
}
