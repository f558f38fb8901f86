package ledger

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/zeebo/blake3"
)

// A stored ledger is text, one JSON object per line:
//
//	{"manifest":H,"key":K,"signature":S}                    the run, and the orchestrator's key
//	{"entry":1,"kind":"emission",...,"link":L}              entries
//	{"closing":1,"epoch":0,"entries":N,"budget":B,"link":R} the end of a page: R is its root; with "proofs":true in a
//	                                                        run that pays only what is proven
//	{"signature":S}                                         over R
//
// L = BLAKE3(the link before, then the line without its last member): what stands before `,"link":"`, and a brace. The
// first link before is BLAKE3(origin, manifest hash). Links, hashes, keys and signatures are hexadecimal digits. So the
// bytes of a line are its canonical encoding, and any program with BLAKE3 and ed25519 can check a ledger.

// closing is the last line of a page.
type closing struct {
	Number  uint64 `json:"closing"` // from 1, without gaps
	Epoch   uint64 `json:"epoch"`
	Entries uint64 `json:"entries"`          // of this page
	Budget  uint64 `json:"budget"`           // micro-units: what the page's entries issue together
	Proofs  bool   `json:"proofs,omitempty"` // no miner's pay is released in this run without a proof
}

// What links and signatures begin with, so that none of another purpose fits.
const (
	origin    = "iota-train ledger 1\n"
	signature = "iota-train ledger root\n"
)

const (
	linkSize = 32                                 // bytes
	tailSize = len(`,"link":"`+`"}`) + 2*linkSize // of a line: everything after its body, but for the body's brace
)

// start is the link before the first line.
func start(manifest []byte) []byte {
	h := blake3.Sum256(append([]byte(origin), manifest...))
	return h[:]
}

// next is the link of a line with the given body.
func next(link, body []byte) []byte {
	h := blake3.New()
	_, _ = h.Write(link) // never fails
	_, _ = h.Write(body)
	return h.Sum(nil)
}

// page ends the running page and returns its lines.
func (l *Ledger) page(r Rules, epoch, budget uint64) []byte {
	var b bytes.Buffer
	line := func(v any) {
		body, err := json.Marshal(v)
		if err != nil {
			panic(fmt.Sprintf("ledger: encode %T: %v", v, err)) // numbers and strings only
		}
		l.Root = next(l.Root, body)
		fmt.Fprintf(&b, "%s,\"link\":\"%x\"}\n", body[:len(body)-1], l.Root)
	}
	for _, e := range l.Open {
		line(e)
	}
	l.Closings++
	line(closing{l.Closings, epoch, uint64(len(l.Open)), budget, r.Proofs})
	l.Open = nil
	return b.Bytes()
}

// splitLine returns a line's body and link, and false if it is not of that form.
func splitLine(line []byte) (body, link []byte, ok bool) {
	n := len(line) - tailSize
	if n < 1 || !bytes.HasPrefix(line[n:], []byte(`,"link":"`)) || !bytes.HasSuffix(line, []byte(`"}`)) {
		return nil, nil, false
	}
	digits := line[n+len(`,"link":"`) : len(line)-2]
	link, ok = unhex(string(digits))
	return append(bytes.Clone(line[:n]), '}'), link, ok
}

// unhex reads digits as fmt writes them: capitals are another spelling, which nobody signed.
func unhex(digits string) ([]byte, bool) {
	b, err := hex.DecodeString(digits)
	return b, err == nil && hex.EncodeToString(b) == digits
}

// Header is the first line of a stored ledger.
func Header(manifest []byte, key ed25519.PrivateKey) []byte {
	public := key.Public().(ed25519.PublicKey)
	return fmt.Appendf(nil, "{\"manifest\":\"%x\",\"key\":\"%x\",\"signature\":\"%x\"}\n", manifest, public, sign(key, start(manifest)))
}

// Sign returns a page with the signature of its root.
func Sign(page []byte, key ed25519.PrivateKey) []byte {
	line := bytes.TrimSuffix(page, []byte("\n"))
	_, root, _ := splitLine(line[bytes.LastIndexByte(line, '\n')+1:])
	return fmt.Appendf(bytes.Clone(page), "{\"signature\":\"%x\"}\n", sign(key, root))
}

func sign(key ed25519.PrivateKey, link []byte) []byte {
	return ed25519.Sign(key, append([]byte(signature), link...))
}

func verify(key ed25519.PublicKey, link, sig []byte) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, append([]byte(signature), link...), sig)
}
