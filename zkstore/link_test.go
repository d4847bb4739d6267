package zkstore

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
	mode  silence
	conns map[net.Conn]bool
	tasks sync.WaitGroup
}

// A silence is what a link keeps to itself, with its connections open.
type silence int

const (
	_       silence = iota
	answers         // from the server
	all             // both ways
)

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
	both.Go(func() { io.Copy(&tap{k, s, all}, c); s.Close() })
	both.Go(func() { io.Copy(&tap{k, c, answers}, s); c.Close() })
	both.Wait()
}

// A tap swallows what is written to it while the link is that silent.
type tap struct {
	k    *link
	to   io.Writer
	from silence
}

func (t *tap) Write(b []byte) (int, error) {
	t.k.mu.Lock()
	swallow := t.k.mode >= t.from
	t.k.mu.Unlock()
	if swallow {
		return len(b), nil
	}
	return t.to.Write(b)
}

// mute swallows the answers of the server, until mend.
func (k *link) mute() { k.silence(answers) }

// hush swallows all, until mend.
func (k *link) hush() { k.silence(all) }

func (k *link) silence(mode silence) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mode = mode
}

// cut ends all connections, and new ones at once, until mend.
func (k *link) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isCut = true
	for c := range k.conns {
		c.Close()
	}
	clear(k.conns)
}

func (k *link) mend() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isCut, k.mode = false, 0
}
