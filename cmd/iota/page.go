package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/iota-train/iota/edge/node"
)

// defaultListen is where the status page is, unless said otherwise.
const defaultListen = "127.0.0.1:8080"

// page is the read-only status page: the run's view as text at / and as JSON at /api/v1/view.
type page struct {
	address string
	server  *http.Server
	done    chan struct{}
}

// servePage starts to serve on the address; off serves nothing.
func servePage(address string, hub *node.Hub) (*page, error) {
	if address == "off" {
		return &page{}, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: choose another address with --listen, or --listen off", err)
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
	p := &page{address: l.Addr().String(), server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = p.server.Serve(l) // ends with close
	}()
	return p, nil
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
