package sim

import (
	"bytes"
	"fmt"

	"github.com/iota-train/iota/protocol/ledger"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// booksHold: every page of the ledger that leaves continues the chain, what was issued is paid, in escrow or burned, and
// it is the budget of the merged work, to within one micro-unit per page; more only for unmerged work that was replayed.
func (l *laws) booksHold(out []*message.Outbound) error {
	config, have := l.sim.config.Manifest, &l.core().Books.Ledger
	pages := false
	for _, o := range out {
		if page := o.GetLedger(); page != nil {
			pages = true
			if err := l.books.Page(message.Hash(config), page); err != nil {
				return fmt.Errorf("ledger: %w", err)
			}
		}
	}
	if !pages {
		return nil
	}
	if have.Issued != have.Paid+have.Escrow+have.Burned || !bytes.Equal(have.Root, l.books.Root) || have.Issued != l.books.Issued {
		return fmt.Errorf("ledger: issued %d, paid %d, in escrow %d, burned %d; its pages issue %d", have.Issued, have.Paid, have.Escrow,
			have.Burned, l.books.Issued)
	}
	var merged, acknowledged uint64 // units of work
	shape := manifest.Shape(config)
	costs := make([]uint64, shape.Stages())
	for i := range costs {
		costs[i] = uint64(shape.Cost(i))
	}
	units, err := ledger.Split(ledger.Whole, costs)
	if err != nil {
		return err
	}
	for i, s := range l.core().Stages {
		merged, acknowledged = merged+s.Merged*units[i], acknowledged+s.Acknowledged*units[i]
	}
	price := manifest.Pay(config).PerBatch
	least, most := merged*price/ledger.Whole, acknowledged*price/ledger.Whole
	if have.Issued+have.Closings < least || have.Issued > most {
		return fmt.Errorf("ledger: issued %d for merged work of %d, acknowledged work of %d", have.Issued, least, most)
	}
	return nil
}

// pay shows what each miner has, in micro-units, and the totals.
func (c *Scenario) pay() []string {
	v := c.sim.View()
	var lines []string
	for _, m := range v.Miners {
		lines = append(lines, fmt.Sprintf("miner %d: score %.2f, earned %d, escrow %d, slashed %d, burned in probation %d", m.Number,
			m.Pay.Score, m.Pay.Earned, m.Pay.Escrow, m.Pay.Slashed, m.Pay.Probation))
	}
	l := v.Ledger
	return append(lines, fmt.Sprintf("issued %d = earned %d + escrow %d + burned %d, in %d entries and %d pages", l.Issued, l.Paid,
		l.Escrow, l.Burned, l.Entries, l.Pages))
}
