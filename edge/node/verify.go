package node

import (
	"fmt"

	"github.com/zeebo/blake3"

	"github.com/iota-train/iota/edge/journal"
)

// Verified is what a replay of a whole journal found to be true.
type Verified struct {
	Run       string
	Events    uint64
	Epochs    uint64 // installed
	Snapshots int
	Chain     [32]byte // the last link
}

// Verify replays every event from the genesis and compares each chain link and each snapshot. Its error names the first
// event that is damaged or leads elsewhere.
func Verify(j Journal) (Verified, error) {
	m, err := newMachine(j)
	if err != nil {
		return Verified{}, err
	}
	snapshots := map[uint64][32]byte{}
	err = j.Snapshots(func(s journal.Snapshot) error {
		if s.State != nil && blake3.Sum256(s.State) != s.StateHash {
			return fmt.Errorf("snapshot after event %d: its hash differs: %w", s.Seq, journal.ErrDamaged)
		}
		snapshots[s.Seq] = s.StateHash
		return nil
	})
	if err != nil {
		return Verified{}, err
	}
	v := Verified{Run: m.core.View().Run}
	err = j.Read(1, func(r journal.Record) error {
		if err := m.replay(r); err != nil {
			return err
		}
		want, ok := snapshots[r.Seq]
		if !ok {
			return nil
		}
		s, err := m.snapshot()
		if err == nil && s.StateHash != want {
			err = fmt.Errorf("snapshot after event %d: its hash is %x, replayed it is %x: %w", r.Seq, want[:4], s.StateHash[:4], ErrDiverged)
		}
		v.Snapshots++
		return err
	})
	v.Events, v.Epochs, v.Chain = m.seq, m.core.Epoch, m.chain
	return v, err
}
