package ledger

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"testing"
)

// FuzzLedger reads strange ledgers. Whatever follows a good header gets links that hold, so that what is behind them is
// reached: somebody who writes a ledger of its own can make those too.
func FuzzLedger(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	manifest := bytes.Repeat([]byte{7}, 32)
	l := New(manifest)
	rules, key1 := Rules{PerBatch: 512_000, Validators: 100_000, Window: 1}, bytes.Repeat([]byte{1}, 32)
	for epoch := range uint64(3) {
		page, err := l.Close(rules, epoch, []Work{{Key: key1, Batches: 3, Units: Whole}}, []Work{{Key: manifest, Units: 1}})
		if err != nil {
			f.Fatal(err)
		}
		var bodies [][]byte
		for line := range bytes.Lines(page) {
			body, _, _ := splitLine(bytes.TrimSuffix(line, []byte("\n")))
			bodies = append(bodies, body)
		}
		f.Add(bytes.Join(bodies, []byte("\n")))
	}
	f.Add(bytes.Join([][]byte{Header(manifest, key), l.Settle(rules, 3)}, nil))
	f.Add([]byte(`{"closing":1}`))
	f.Add([]byte(`{"number":18446744073709551615,"amount":18446744073709551615}`))
	f.Add([]byte("\n{}\n[]\nnull"))
	f.Fuzz(func(t *testing.T, text []byte) {
		raw := &Reader{}
		for line := range bytes.Lines(text) {
			if raw.Line(line) != nil {
				break
			}
		}
		_ = raw.End()
		r := &Reader{}
		if err := r.Line(bytes.TrimSuffix(Header(manifest, key), []byte("\n"))); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			body, ok := bytes.CutSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("}"))
			if !ok {
				break
			}
			r.unsigned = false // as if it were signed
			if r.Line(fmt.Appendf(nil, "%s,\"link\":\"%x\"}", body, next(r.link, append(bytes.Clone(body), '}')))) != nil {
				return
			}
		}
		_ = r.End()
		if r.Issued != r.Burned+r.Paid+r.Escrow {
			t.Fatalf("issued %d, burned %d, paid %d, escrow %d", r.Issued, r.Burned, r.Paid, r.Escrow)
		}
	})
}
