package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.uber.org/goleak"
)

func init() { firstPause = time.Millisecond }

// server is an S3 server on this machine that checks signatures, and fails as the test wants.
type server struct {
	t       testing.TB
	backend *s3mem.Backend
	fake    http.Handler
	host    string
	late    atomic.Int64               // nanoseconds that its clock is ahead
	fail    atomic.Pointer[breaks]     // of the next objects' answers
	seen    atomic.Pointer[[]sentence] // every request
}

// sentence is what a request asked for.
type sentence struct{ method, query, span string }

// breaks cuts answers short: the first n of them after so many bytes, and leaves them open if they are to stall.
type breaks struct {
	n     atomic.Int64
	after int
	stall bool
}

const (
	testAccess = "the-access-key"
	testSecret = "the-secret-key"
	testRegion = "us-east-1"
	testBucket = "blobs"
)

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{t: t, backend: s3mem.New()}
	if err := s.backend.CreateBucket(testBucket); err != nil {
		t.Fatal(err)
	}
	s.fake = gofakes3.New(s.backend).Server()
	before := goleak.IgnoreCurrent()
	web := httptest.NewServer(s)
	s.host = strings.TrimPrefix(web.URL, "http://")
	t.Cleanup(func() {
		web.Close()
		goleak.VerifyNone(t, before)
	})
	return s
}

func (s *server) config() S3Config {
	return S3Config{Endpoint: s.host, Bucket: testBucket, Prefix: "run", Region: testRegion, AccessKey: testAccess, SecretKey: testSecret}
}

func (s *server) open(c S3Config) *S3 {
	s.t.Helper()
	b, err := OpenS3(s.t.Context(), c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(b.Close)
	return b
}

// replace puts other bytes under the name of a blob, as nobody should.
func (s *server) replace(h Hash, b []byte) {
	s.t.Helper()
	if _, err := s.backend.PutObject(testBucket, "run/"+h.String(), map[string]string{}, strings.NewReader(string(b)), int64(len(b)), nil); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) asked() []sentence {
	if p := s.seen.Load(); p != nil {
		return *p
	}
	return nil
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for {
		old := s.seen.Load()
		list := append(slices.Clip(s.asked()), sentence{r.Method, r.URL.RawQuery, r.Header.Get("Range")})
		if s.seen.CompareAndSwap(old, &list) {
			break
		}
	}
	if code := s.checkSignature(r); code != "" {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>no</Message></Error>`, code)
		return
	}
	if b := s.fail.Load(); b != nil && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/run/") && b.n.Add(-1) >= 0 {
		w = &cut{w, r, b.after, b.stall}
	}
	s.fake.ServeHTTP(w, r)
}

// cut is an answer that ends too early.
type cut struct {
	http.ResponseWriter
	r     *http.Request
	left  int
	stall bool
}

func (c *cut) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b[:min(len(b), c.left)])
	if c.left -= n; c.left > 0 || err != nil {
		return n, err
	}
	c.ResponseWriter.(http.Flusher).Flush()
	if c.stall {
		<-c.r.Context().Done()
	}
	panic(http.ErrAbortHandler)
}

// checkSignature returns an error code unless a request is signed by the right key, in its header or its address.
func (s *server) checkSignature(r *http.Request) string {
	query, payload := r.URL.Query(), r.Header.Get("X-Amz-Content-Sha256")
	date, credential, signed, signature := r.Header.Get("X-Amz-Date"), "", "", ""
	if signature = query.Get("X-Amz-Signature"); signature != "" {
		date, credential, signed, payload = query.Get("X-Amz-Date"), query.Get("X-Amz-Credential"), query.Get("X-Amz-SignedHeaders"), "UNSIGNED-PAYLOAD"
		query.Del("X-Amz-Signature")
		since, err := time.Parse("20060102T150405Z", date)
		seconds, _ := strconv.Atoi(query.Get("X-Amz-Expires"))
		if now := time.Now().Add(time.Duration(s.late.Load())); err != nil || now.After(since.Add(time.Duration(seconds)*time.Second)) {
			return "AccessDenied"
		}
	} else {
		for _, part := range strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 "), ", ") {
			for _, one := range strings.Split(part, ",") {
				name, value, _ := strings.Cut(strings.TrimSpace(one), "=")
				switch name {
				case "Credential":
					credential = value
				case "SignedHeaders":
					signed = value
				case "Signature":
					signature = value
				}
			}
		}
	}
	if !strings.HasPrefix(credential, testAccess+"/") || len(date) < 8 {
		return "InvalidAccessKeyId"
	}
	if signature != sign(r, query, date, signed, payload) {
		return "SignatureDoesNotMatch"
	}
	return ""
}

// sign is the signature that a request must have.
func sign(r *http.Request, query url.Values, date, signed, payload string) string {
	var headers strings.Builder
	for _, name := range strings.Split(signed, ";") {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = strconv.FormatInt(r.ContentLength, 10)
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.TrimSpace(value))
	}
	canonical := strings.Join([]string{r.Method, r.URL.EscapedPath(), strings.ReplaceAll(query.Encode(), "+", "%20"), headers.String(), signed, payload}, "\n")
	hashed := sha256.Sum256([]byte(canonical))
	scope := date[:8] + "/" + testRegion + "/s3/aws4_request"
	key := []byte("AWS4" + testSecret)
	for _, part := range strings.Split(scope, "/") {
		key = keyed(key, part)
	}
	return hex.EncodeToString(keyed(key, "AWS4-HMAC-SHA256\n"+date+"\n"+scope+"\n"+hex.EncodeToString(hashed[:])))
}

func keyed(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}
