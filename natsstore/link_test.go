package natsstore

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A link is the way of a client to a server, which can be cut.
type link struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	isCut bool
	conns map[net.Conn]bool
	tasks sync.WaitGroup
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{l: l, to: to, conns: map[net.Conn]bool{}}
	k.tasks.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			k.tasks.Go(func() { k.carry(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		k.cut()
		k.tasks.Wait()
	})
	return k
}

func (k *link) addr() string { return k.l.Addr().String() }

func (k *link) carry(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", k.to)
	if err != nil {
		return
	}
	defer s.Close()
	k.mu.Lock()
	if k.isCut {
		k.mu.Unlock()
		return
	}
	k.conns[c], k.conns[s] = true, true
	k.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { io.Copy(s, c); s.Close() })
	both.Go(func() { io.Copy(c, s); c.Close() })
	both.Wait()
}

// cut ends all connections, and new ones at once.
func (k *link) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isCut = true
	for c := range k.conns {
		c.Close()
	}
	clear(k.conns)
}
