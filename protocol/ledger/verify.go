package ledger

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Reader checks the lines of a stored ledger in order and keeps the books anew from them: every link of the chain, every
// signature, every entry against the balances, every page's sum against its budget and its division by work, and in a run
// that asks for proofs every release of a miner's pay against those before it. The zero value is ready.
type Reader struct {
	Ledger
	Manifest []byte // hash, from the header
	Key      ed25519.PublicKey
	Epoch    uint64 // of the last page

	lines    uint64
	link     []byte
	page     []Entry
	proofs   bool   // the pages before say that pay needs a proof
	bare     uint64 // number of the page's first release without one
	unsigned bool   // the page is complete but for its signature
}

// Line takes in the next line, without its end. The error names the line and the first entry that does not hold; after
// one the Reader is of no more use.
func (r *Reader) Line(line []byte) error {
	r.lines++
	if err := r.line(line); err != nil {
		return fmt.Errorf("line %d, %s: %w", r.lines, r.place(), err)
	}
	return nil
}

// End returns an error unless the lines so far are a header and whole, signed pages.
func (r *Reader) End() error {
	switch {
	case r.lines == 0:
		return errors.New("the ledger is empty")
	case r.link == nil || r.unsigned || len(r.page) > 0:
		return fmt.Errorf("line %d: the ledger ends within page %d", r.lines, r.Closings+1)
	}
	return nil
}

// Page takes in the lines of a page as Close returned them, without signature, of a run whose manifest has the hash.
func (r *Reader) Page(manifest, page []byte) error {
	if r.link == nil {
		r.begin(manifest)
	}
	for line := range bytes.Lines(page) {
		r.unsigned = false
		if err := r.Line(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return err
		}
	}
	if !r.unsigned {
		return fmt.Errorf("page %d has no end", r.Closings+1)
	}
	r.unsigned = false
	return nil
}

// place says where the Reader is: what it expects next.
func (r *Reader) place() string {
	switch {
	case r.link == nil:
		return "header"
	case r.unsigned:
		return fmt.Sprintf("signature of page %d", r.Closings)
	}
	return fmt.Sprintf("entry %d or the end of page %d", r.Entries+1, r.Closings+1)
}

func (r *Reader) begin(manifest []byte) {
	r.Ledger, r.Manifest, r.link = New(manifest), manifest, start(manifest)
}

var errChanged = errors.New("it is not what was written: its link does not follow from its text and the line before")

func (r *Reader) line(line []byte) error {
	switch {
	case r.link == nil:
		return r.header(line)
	case r.unsigned:
		return r.signature(line)
	}
	body, link, ok := splitLine(line)
	if !ok || !bytes.Equal(link, next(r.link, body)) {
		return errChanged
	}
	if bytes.HasPrefix(body, []byte(`{"closing":`)) {
		var c closing
		if err := strict(body, &c); err != nil {
			return err
		}
		if err := r.close(c); err != nil {
			return err
		}
		r.Root, r.unsigned = link, true
	} else {
		var e Entry
		if err := strict(body, &e); err != nil {
			return err
		}
		if e.Number != r.Entries+1 {
			return fmt.Errorf("its number is %d", e.Number)
		}
		if h := r.Find(e.Key); e.Kind == Release && r.bare == 0 && !h.proven(e.Of) {
			r.bare = e.Number
		}
		if err := r.apply(e); err != nil {
			return err
		}
		r.page = append(r.page, e)
	}
	r.link = link
	return nil
}

// header takes in the first line.
func (r *Reader) header(line []byte) error {
	var h struct{ Manifest, Key, Signature string }
	if err := json.Unmarshal(line, &h); err != nil {
		return errors.New("this is no ledger")
	}
	manifest, ok := unhex(h.Manifest)
	key, fine := unhex(h.Key)
	sig, good := unhex(h.Signature)
	want := fmt.Sprintf("{\"manifest\":\"%s\",\"key\":\"%s\",\"signature\":\"%s\"}", h.Manifest, h.Key, h.Signature)
	if !ok || !fine || !good || string(line) != want || !verify(key, start(manifest), sig) {
		return errors.New("its signature does not hold")
	}
	r.begin(manifest)
	r.Key = key
	return nil
}

// signature takes in the line after a page.
func (r *Reader) signature(line []byte) error {
	digits, ok := bytes.CutPrefix(line, []byte(`{"signature":"`))
	digits, end := bytes.CutSuffix(digits, []byte(`"}`))
	sig, fine := unhex(string(digits))
	if !ok || !end || !fine || !verify(r.Key, r.Root, sig) {
		return errors.New("it does not hold")
	}
	r.unsigned = false
	return nil
}

// close checks a page's sums and ends it.
func (r *Reader) close(c closing) error {
	if c.Number != r.Closings+1 || c.Entries != uint64(len(r.page)) {
		return fmt.Errorf("the end of page %d, with %d entries, stands after %d entries", c.Number, c.Entries, len(r.page))
	}
	if err := r.proofsHold(c); err != nil {
		return err
	}
	var issued uint64 // does not overflow: apply bounds what is ever issued
	for _, e := range r.page {
		if e.From == Issue {
			issued += e.Amount
		}
	}
	if issued != c.Budget {
		return fmt.Errorf("its entries issue %d micro-units of a budget of %d", issued, c.Budget)
	}
	if err := fair(r.page, Emission, Probation, Forfeit); err != nil {
		return err
	}
	if err := fair(r.page, Validation, Voided); err != nil {
		return err
	}
	r.Closings, r.Epoch, r.page = c.Number, c.Epoch, nil
	return nil
}

// proofsHold returns an error unless a page of a run that asks for proofs releases proven pay only. All pages of a run
// say the same of that.
func (r *Reader) proofsHold(c closing) error {
	switch {
	case r.Closings > 0 && c.Proofs != r.proofs:
		return errors.New("it does not say the same as the pages before on whether pay needs a proof")
	case c.Proofs && r.bare > 0:
		return fmt.Errorf("entry %d pays what no replay has proven", r.bare)
	}
	r.proofs, r.bare = c.Proofs, 0
	return nil
}

// fair returns an error unless the entries of the kinds divide what they issue together in proportion to work.
func fair(page []Entry, kinds ...Kind) error {
	var work []uint64
	var list []Entry
	var budget uint64
	for _, e := range page {
		if slices.Contains(kinds, e.Kind) {
			work, list, budget = append(work, e.Work), append(list, e), budget+e.Amount
		}
	}
	parts, err := Split(budget, work)
	if err != nil {
		return err
	}
	for i, e := range list {
		if parts[i] != e.Amount {
			return fmt.Errorf("entry %d is %d micro-units, its work earns %d", e.Number, e.Amount, parts[i])
		}
	}
	return nil
}

// strict decodes a body in which nothing may stand but what belongs there.
func strict(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("no line of a ledger: %w", err)
	}
	return nil
}
