package prove

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// echo is a server that answers with what it receives.
func echo(t *testing.T) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	return l.Addr().String()
}

// linked is a proxy in front of an echo, with a working connection through it.
func linked(t *testing.T) (*proxy, net.Conn) {
	t.Helper()
	p, err := newProxy("tcp", echo(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	c := connect(t, p)
	if b, err := ask4(c, "ping"); err != nil || b != "ping" {
		t.Fatalf("over a good link: got %q, %v", b, err)
	}
	return p, c
}

func connect(t *testing.T, p *proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// ask4 sends s and reads as many bytes back.
func ask4(c net.Conn, s string) (string, error) {
	if _, err := c.Write([]byte(s)); err != nil {
		return "", err
	}
	b := make([]byte, len(s))
	n, err := io.ReadFull(c, b)
	return string(b[:n]), err
}

func TestACutLinkPassesNothingUntilItIsRestored(t *testing.T) {
	p, c := linked(t)
	p.strike(cut, 0)
	if b, err := ask4(c, "ping"); err == nil {
		t.Errorf("over the cut link: got %q, want no reply", b)
	}
	if again, err := net.Dial("tcp", p.addr()); err == nil { // else it was reset at once
		if b, err := ask4(again, "ping"); err == nil {
			t.Errorf("over a new connection: got %q, want no reply", b)
		}
		again.Close()
	}
	if hits := p.mend(); hits < 2 { // both halves of the first
		t.Errorf("got %d hits, want at least 2", hits)
	}
	if b, err := ask4(connect(t, p), "ping"); err != nil {
		t.Errorf("once restored: got %q, %v", b, err)
	}
}

func TestAHalfCutLinkKeepsRepliesUntilItIsRestored(t *testing.T) {
	p, c := linked(t)
	p.strike(halfCut, 0)
	if _, err := c.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	for { // the reply is at the proxy, so the request reached the server
		p.mu.Lock()
		hits := p.hits
		p.mu.Unlock()
		if hits > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	b := make([]byte, 4)
	for range 20 { // each read takes longer on a busy machine, and so may what must not happen
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if n, err := c.Read(b); n > 0 || err == nil {
			t.Fatalf("got %q, %v, want nothing to arrive", b[:n], err)
		}
	}
	p.mend()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "ping" {
		t.Errorf("once restored: got %q, %v", b, err)
	}
}

func TestASlowLinkTakesItsTime(t *testing.T) {
	for f, least := range map[Fault]time.Duration{latency: 40 * time.Millisecond, jitter: 1, slow: 12 * time.Millisecond} {
		p, c := linked(t)
		p.strike(f, 20*time.Millisecond)
		sent := string(bytes.Repeat([]byte("ping"), 25))
		start := time.Now()
		if b, err := ask4(c, sent); err != nil || b != sent {
			t.Errorf("%s: got %q, %v", f, b, err)
		}
		if took := time.Since(start); took < least {
			t.Errorf("%s: it took %v, want at least %v", f, took, least)
		}
		if hits := p.mend(); hits < 2 {
			t.Errorf("%s: got %d hits, want the request and the reply", f, hits)
		}
	}
}

func TestAResetComesInTheMiddleOfAReply(t *testing.T) {
	p, _ := linked(t)
	p.strike(reset, 0)
	for range 1000 {
		b, err := ask4(connect(t, p), "pingpong")
		if err == nil {
			continue
		}
		if errors.Is(err, io.ErrUnexpectedEOF) || b != "" && b != "ping" {
			t.Errorf("got %q, %v, want a reset after at most half", b, err)
		}
		if p.mend() != 1 {
			t.Error("got hits on more than one reply")
		}
		return
	}
	t.Error("no reply was reset")
}

// A long reply that was under way on a slow link arrives as soon as the link is fast again.
func TestASlowLinkIsSlowUntilItIsRestored(t *testing.T) {
	t.Parallel()
	p, _ := linked(t)
	p.strike(slow, 0)
	to := &mending{p: p}
	if err := p.pass(to, make([]byte, 1<<16), true); err != nil {
		t.Fatal(err)
	}
	if to.writes != 2 || to.n != 1<<16 {
		t.Errorf("got %d bytes in %d writes, want 65536 in 2", to.n, to.writes)
	}
}

// A mending connection restores its link at the first write.
type mending struct {
	net.Conn
	p         *proxy
	writes, n int
}

func (m *mending) Write(b []byte) (int, error) {
	m.writes++
	m.n += len(b)
	m.p.mend()
	return len(b), nil
}
