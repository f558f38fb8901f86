//go:build unix

package postgrestest

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
)

// Proxy stands between clients and a server, and may lose what the server answers.
type Proxy struct {
	URL    string
	server string // its socket

	mu   sync.Mutex
	lose bool
	open []net.Conn
}

// Proxy returns one for the rest of the test.
func (s *Server) Proxy(t testing.TB) *Proxy {
	t.Helper()
	const socket = ".s.PGSQL.5432"
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{server: filepath.Join(s.dir, socket),
		URL: fmt.Sprintf("postgres://iota:%s@/postgres?host=%s", Password, url.QueryEscape(dir))}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.join(client, &tasks)
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.open {
			c.Close()
		}
		p.mu.Unlock()
		tasks.Wait()
	})
	return p
}

// Lose says whether answers to statements that insert are lost from now on, and their connections with them.
func (p *Proxy) Lose(lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = lose
}

// join passes on what a client and the server say to each other.
func (p *Proxy) join(client net.Conn, tasks *sync.WaitGroup) {
	server, err := net.Dial("unix", p.server)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.open = append(p.open, client, server)
	p.mu.Unlock()
	pass := func(from, to net.Conn, answers bool) {
		defer from.Close()
		defer to.Close()
		b := make([]byte, 1<<16)
		for {
			n, err := from.Read(b)
			p.mu.Lock()
			lost := answers && p.lose && bytes.Contains(b[:n], []byte("INSERT 0 "))
			p.mu.Unlock()
			if err != nil || lost {
				return
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
	}
	tasks.Go(func() { pass(client, server, false) })
	tasks.Go(func() { pass(server, client, true) })
}
