package store

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Patience with an object server.
const (
	stallAfter  = 10 * time.Second // without a byte in either direction a request is given up
	answerAfter = time.Minute      // for an answer, once a whole request was sent
	tries       = 5                // of a request; a download that moves on gets more
)

// errStalled says that nothing moved for too long. The request may be repeated.
var errStalled = errors.New("the transfer stalled")

// watch is a RoundTripper whose requests end when no byte moves for a while, however long the whole takes.
type watch struct {
	base          http.RoundTripper
	stall, answer time.Duration
}

// newWatch returns a watch over connections of its own. It speaks HTTP/1.1, as object servers do.
func newWatch(stall, answer time.Duration) *watch {
	return &watch{stall: stall, answer: answer, base: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: stall}).DialContext,
		TLSHandshakeTimeout: stall,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
	}}
}

// close ends the idle connections.
func (w *watch) close() { w.base.(*http.Transport).CloseIdleConnections() }

// RoundTrip sends the request under watch.
func (w *watch) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	t := &transfer{ctx: ctx, stall: w.stall, answer: w.answer}
	t.timer = time.AfterFunc(w.stall, func() { cancel(errStalled) })
	t.end = func() { t.timer.Stop(); cancel(nil) }
	sent := r.Clone(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		sent.Body = &upward{r.Body, t}
	}
	resp, err := w.base.RoundTrip(sent)
	if err != nil {
		err = t.explain(err)
		t.end()
		return nil, err
	}
	t.timer.Reset(w.stall)
	resp.Body = &downward{resp.Body, t}
	return resp, nil
}

// transfer is one request and its answer.
type transfer struct {
	ctx           context.Context
	timer         *time.Timer
	stall, answer time.Duration
	end           func()
}

// explain names the stall where the transport only knows that the request was cancelled.
func (t *transfer) explain(err error) error {
	if err != nil && err != io.EOF && context.Cause(t.ctx) == errStalled {
		return errStalled
	}
	return err
}

// upward is a request's body.
type upward struct {
	io.ReadCloser
	t *transfer
}

func (u *upward) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	if err == io.EOF {
		u.t.timer.Reset(u.t.answer)
	} else {
		u.t.timer.Reset(u.t.stall)
	}
	return n, err
}

// downward is an answer's body.
type downward struct {
	io.ReadCloser
	t *transfer
}

func (d *downward) Read(b []byte) (int, error) {
	n, err := d.ReadCloser.Read(b)
	if n > 0 {
		d.t.timer.Reset(d.t.stall)
	}
	return n, d.t.explain(err)
}

func (d *downward) Close() error {
	d.t.end()
	return d.ReadCloser.Close()
}

// bare strips the address off an error of net/http: a presigned one lets its reader in.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// firstPause is half of the shortest time between two attempts; tests shorten it.
var firstPause = 100 * time.Millisecond

// pause waits a little longer each time, unless ctx ends.
func pause(ctx context.Context, try int) error {
	timer := time.NewTimer(min(firstPause<<try, 5*time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// insist does a request, and again if it failed in a way that another attempt may not.
func insist(ctx context.Context, request func() error) error {
	for try := 1; ; try++ {
		err := request()
		var soft again
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.As(err, &soft) || try >= tries:
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}
