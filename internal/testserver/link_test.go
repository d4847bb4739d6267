package testserver

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// A silent link does not pass on that the server has ended a connection: that would free a client that waits for a hung
// server. It passes it on once the link is restored.
func TestASilentLinkKeepsTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k := NewLink(t, l.Addr().String())
	c, err := net.Dial("tcp", k.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	k.Hush()
	server.Close()
	for isOver := false; !isOver; time.Sleep(time.Millisecond) {
		k.mu.Lock()
		for x := range k.conns {
			isOver = x.isOver
		}
		if len(k.conns) == 0 {
			t.Error("the silent link ended the connection")
			isOver = true
		}
		k.mu.Unlock()
	}
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the client noticed the end: got %v, want a timeout", err)
	}
	k.Mend()
	c.SetReadDeadline(time.Time{})
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the link was restored: got %v, want EOF", err)
	}
}
