package testserver

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A Link is the way of a client to a server, which can be cut.
type Link struct {
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

// NewLink makes one to an address, which ends with the test.
func NewLink(t testing.TB, to string) *Link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &Link{l: l, to: to, conns: map[net.Conn]bool{}}
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
		k.Cut()
		k.tasks.Wait()
	})
	return k
}

func (k *Link) Addr() string { return k.l.Addr().String() }

func (k *Link) carry(c net.Conn) {
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
	k    *Link
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

// Mute swallows the answers of the server, until Mend.
func (k *Link) Mute() { k.silence(answers) }

// Hush swallows all, until Mend.
func (k *Link) Hush() { k.silence(all) }

func (k *Link) silence(mode silence) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mode = mode
}

// Cut ends all connections, and new ones at once, until Mend.
func (k *Link) Cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isCut = true
	for c := range k.conns {
		c.Close()
	}
	clear(k.conns)
}

// Mend lets all pass again, on new connections where they were cut.
func (k *Link) Mend() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isCut, k.mode = false, 0
}
