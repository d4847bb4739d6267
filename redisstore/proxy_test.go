package redisstore

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between a client and a server and cuts connections.
type proxy struct {
	addr   string // the address to connect to
	server string

	accepted atomic.Int32 // number of connections

	mu    sync.Mutex
	drop  int // this many of the next answers do not arrive: the connection is cut instead
	conns map[net.Conn]bool
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), server: server, conns: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.accepted.Add(1)
			wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut()
		wg.Wait()
	})
	return p
}

// dropAnswers cuts the connection in place of each of the next n answers: the server has run the command, and the client does not know.
func (p *proxy) dropAnswers(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop = n
}

// cut cuts all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// lead sends new connections to another server.
func (p *proxy) lead(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

func (p *proxy) serve(client net.Conn) {
	p.mu.Lock()
	to := p.server
	p.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	end := func() { client.Close(); server.Close() }
	var wg sync.WaitGroup
	wg.Go(func() {
		defer end()
		io.Copy(server, client)
	})
	wg.Go(func() {
		defer end()
		b := make([]byte, 1<<16)
		for {
			n, err := server.Read(b)
			if n > 0 && p.dropped() {
				return
			}
			if _, werr := client.Write(b[:n]); err != nil || werr != nil {
				return
			}
		}
	})
	wg.Wait()
}

func (p *proxy) dropped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drop == 0 {
		return false
	}
	p.drop--
	return true
}
