package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// noise is bytes that no two seeds share.
func noise(seed uint64, n int) []byte {
	b, r := make([]byte, n), rand.NewPCG(seed, 1)
	for i := range b {
		b[i] = byte(r.Uint64())
	}
	return b
}

func TestBucketGivesBackWhatWasPut(t *testing.T) {
	server := newServer(t)
	s := server.open(server.config())
	for _, n := range []int{0, 1, 100_000, 40 << 20} { // the last in parts
		b := noise(uint64(n), n)
		h, err := s.Put(t.Context(), message.NewBlob(b))
		if err != nil || h != Sum(b) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		// Another process has to find the very bytes: some servers keep the framing of signed chunks in an object.
		other := server.open(server.config())
		got, err := other.Get(t.Context(), h, uint64(n))
		if err != nil || Sum(got) != h {
			t.Fatalf("%d bytes: got %d, %v", n, len(got), err)
		}
		if err := other.Verify(t.Context(), h, uint64(n)); err != nil {
			t.Fatal(err)
		}
		if size, err := other.Size(t.Context(), h); size != uint64(n) || err != nil {
			t.Fatalf("size %d, %v", size, err)
		}
	}
	if reopened := server.open(server.config()); reopened.Usage() != s.Usage() || s.Usage() != 100_001+40<<20 {
		t.Errorf("%d bytes in use, reopened %d", s.Usage(), reopened.Usage())
	}
}

func TestBucketNeverGivesDamagedBytes(t *testing.T) {
	server := newServer(t)
	s, blob := server.open(server.config()), noise(1, 1000)
	h, err := s.Put(t.Context(), message.NewBlob(blob))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(blob)
	flipped[500] ^= 1
	for name, bad := range map[string][]byte{"flipped": flipped, "short": blob[:999], "long": append(bytes.Clone(blob), 0), "empty": nil} {
		server.replace(h, bad)
		if _, err := s.Get(t.Context(), h, 1000); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: get: %v", name, err)
		}
		if err := s.Verify(t.Context(), h, 1000); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: verify: %v", name, err)
		}
	}
	if _, err := s.Put(t.Context(), message.NewBlob(blob)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), h, 1000); err != nil || !bytes.Equal(got, blob) {
		t.Errorf("a second put repairs: %v", err)
	}
	if err := server.open(server.config()).Delete(h); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), h, 1000); !errors.Is(err, ErrMissing) {
		t.Errorf("get missing: %v", err)
	}
	if ok, err := s.Has(t.Context(), h); ok || err != nil {
		t.Errorf("it is still thought to be there: %v", err)
	}
}

func TestBrokenDownloadIsTakenUpWhereItEnded(t *testing.T) {
	for name, stall := range map[string]bool{"broken": false, "stalled": true} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t)
			patience := stallAfter
			if stall {
				patience = 500 * time.Millisecond
			}
			s, err := openS3(t.Context(), server.config(), newWatch(patience, answerAfter))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			const size = 4 << 20
			blob := noise(2, size)
			h, err := s.Put(t.Context(), message.NewBlob(blob))
			if err != nil {
				t.Fatal(err)
			}
			p := newPresigned(addresses(s), newWatch(patience, answerAfter))
			t.Cleanup(p.Close)
			for who, get := range map[string]func() ([]byte, error){
				"keys":      func() ([]byte, error) { return s.Get(t.Context(), h, size) },
				"presigned": func() ([]byte, error) { return p.Get(t.Context(), h, size) },
			} {
				b := &breaks{after: 3 << 20 / 2, stall: stall}
				b.n.Store(2)
				server.fail.Store(b)
				before := len(server.asked())
				if got, err := get(); err != nil || !bytes.Equal(got, blob) {
					t.Fatalf("%s: %v", who, err)
				}
				var spans []string
				for _, a := range server.asked()[before:] {
					spans = append(spans, a.span)
				}
				if want := []string{"", "bytes=1572864-", "bytes=3145728-"}; fmt.Sprint(spans) != fmt.Sprint(want) {
					t.Errorf("%s: asked for %q", who, spans)
				}
			}
		})
	}
}

func TestDownloadThatNeverMovesOnEnds(t *testing.T) {
	server := newServer(t)
	s := server.open(server.config())
	h, err := s.Put(t.Context(), message.NewBlob(noise(3, 1000)))
	if err != nil {
		t.Fatal(err)
	}
	b := &breaks{after: 10}
	b.n.Store(1000)
	server.fail.Store(b)
	if _, err := s.Get(t.Context(), h, 1000); err == nil || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrMissing) {
		t.Errorf("got %v", err)
	}
	if left := b.n.Load(); left < 1000-tries {
		t.Errorf("%d attempts", 1000-left)
	}
}

func TestOpenBucketSaysWhatIsWrong(t *testing.T) {
	server := newServer(t)
	for name, c := range map[string]struct {
		change func(*S3Config)
		want   string
	}{
		"another access key": {func(c *S3Config) { c.AccessKey = "nobody" }, "check access key"},
		"another secret":     {func(c *S3Config) { c.SecretKey = "not-the-secret" }, "check access key"},
		"no such bucket":     {func(c *S3Config) { c.Bucket = "elsewhere" }, "create it"},
		"nobody there":       {func(c *S3Config) { c.Endpoint = "127.0.0.1:1" }, "check the endpoint"},
		"no TLS there":       {func(c *S3Config) { c.Secure = true }, "check the endpoint"},
		"no host":            {func(c *S3Config) { c.Endpoint = "" }, "open store"},
		"no bucket name":     {func(c *S3Config) { c.Bucket = "" }, "open store"},
	} {
		t.Run(name, func(t *testing.T) {
			config := server.config()
			c.change(&config)
			_, err := OpenS3(t.Context(), config)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v", err)
			}
			for _, secret := range []string{testSecret, "not-the-secret", "Signature="} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("it tells %q: %v", secret, err)
				}
			}
		})
	}
}

func TestConfigKeepsItsKeysToItself(t *testing.T) {
	c := S3Config{Endpoint: "host", Bucket: "b", AccessKey: testAccess, SecretKey: testSecret}
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), string(encoded)} {
		if strings.Contains(shown, testSecret) || strings.Contains(shown, testAccess) {
			t.Error(shown)
		}
	}
}

func TestHalfAnUploadIsRemovedWhenTheBucketIsOpenedAgain(t *testing.T) {
	server := newServer(t)
	s := server.open(server.config())
	h := Sum(noise(4, 10))
	if _, err := s.client.NewMultipartUpload(t.Context(), testBucket, s.name(h), noOptions); err != nil {
		t.Fatal(err)
	}
	server.open(server.config())
	for part := range s.client.ListIncompleteUploads(t.Context(), testBucket, "", true) {
		t.Errorf("left: %s %v", part.Key, part.Err)
	}
}

func TestStrangersInTheBucketAreLeftAlone(t *testing.T) {
	server := newServer(t)
	for _, name := range []string{"notes.txt", "run/README", "other/" + Sum(nil).String()} {
		if _, err := server.backend.PutObject(testBucket, name, map[string]string{}, strings.NewReader("x"), 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	s := server.open(server.config())
	if err := s.Each(t.Context(), func(i Info) error { return fmt.Errorf("found %s", i.Hash) }); err != nil || s.Usage() != 0 {
		t.Errorf("%v, %d bytes in use", err, s.Usage())
	}
}
