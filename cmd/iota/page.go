package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/iota-train/iota/edge/metrics"
	"github.com/iota-train/iota/edge/node"
)

// defaultListen is where the status page is, unless said otherwise.
const defaultListen = "127.0.0.1:8080"

// page serves what may be read of a process over HTTP. Nothing can be changed there.
type page struct {
	address string
	server  *http.Server
	done    chan struct{}
}

// servePage shows a run: its view as text at / and as JSON at /api/v1/view, /metrics, /healthz and /readyz. The address off
// serves nothing.
func servePage(address string, hub *node.Hub) (*page, error) {
	run := &metrics.Run{View: hub.View, Vitals: hub.Vitals, Version: version()}
	if s, ok := hub.Blobs.(interface{ Usage() uint64 }); ok {
		run.Blobs = s.Usage
	}
	scrape, err := metrics.Handler(run)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/view", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(hub.View()) // the reader may have left
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, line := range block(hub.View(), rate{}, 100) {
			fmt.Fprintln(w, line)
		}
	})
	watch(mux, scrape, run.Alive, run.Ready)
	return openPage(address, mux)
}

// serveParticipant shows the process of a miner or a validator, whose driver is not there before the orchestrator was
// reached.
func serveParticipant(address string, driver *atomic.Pointer[node.Miner]) (*page, error) {
	p := &metrics.Participant{Version: version(), Labours: func() (l node.Labours) {
		if m := driver.Load(); m != nil {
			l = m.Labours()
		}
		return l
	}}
	scrape, err := metrics.Handler(p)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	watch(mux, scrape, p.Alive, p.Ready)
	return openPage(address, mux)
}

// watch adds what machines ask.
func watch(mux *http.ServeMux, scrape http.Handler, alive, ready metrics.Check) {
	mux.Handle("GET /metrics", scrape)
	mux.Handle("GET /healthz", alive)
	mux.Handle("GET /readyz", ready)
}

// openPage starts to serve on the address. Requests, and those who send them slowly, are bounded.
func openPage(address string, mux http.Handler) (*page, error) {
	if address == "off" {
		return &page{}, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: choose another address with --listen, or --listen off", err)
	}
	p := &page{address: l.Addr().String(), done: make(chan struct{}), server: &http.Server{
		Handler: http.MaxBytesHandler(guarded(mux), 0), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}}
	go func() {
		defer close(p.done)
		_ = p.server.Serve(l) // ends with close
	}()
	return p, nil
}

// guarded tells browsers to take an answer for what it says it is, to show it in no other page and to keep none.
func guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'", "X-Content-Type-Options": "nosniff",
			"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		} {
			w.Header().Set(name, value)
		}
		h.ServeHTTP(w, r)
	})
}

func (p *page) close() {
	if p.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		p.server.Close()
	}
	<-p.done
}
