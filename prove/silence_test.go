package prove

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// sink is a server that reports what it receives, and answers each piece with a dot.
func sink(t *testing.T) (addr string, heard <-chan string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	got := make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 100)
				for {
					n, err := c.Read(b)
					if err != nil {
						return
					}
					got <- string(b[:n])
					if _, err := c.Write([]byte(".")); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), got
}

func hear(t *testing.T, heard <-chan string) string {
	t.Helper()
	select {
	case s := <-heard:
		return s
	case <-time.After(time.Minute):
		t.Fatal("nothing arrived at the server")
		return ""
	}
}

// In silence the request arrives, the reply does not, and the client is reset.
func TestAfterSilenceTheConnectionIsReset(t *testing.T) {
	addr, heard := sink(t)
	p, err := newProxy("tcp", addr, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	c := connect(t, p)
	p.strike(silence, 0)
	if _, err := c.Write([]byte("ask")); err != nil {
		t.Fatal(err)
	}
	if got := hear(t, heard); got != "ask" {
		t.Errorf("the server heard %q", got)
	}
	met(p)
	if hits := p.mend(); hits != 1 {
		t.Errorf("got %d hits, want 1", hits)
	}
	if b, err := io.ReadAll(c); err == nil || len(b) > 0 {
		t.Errorf("the client got %q, %v, want a reset", b, err)
	}
	if b, err := ask4(connect(t, p), "."); err != nil || b != "." {
		t.Errorf("once restored: got %q, %v", b, err)
	}
}

// met returns once the current fault has met something.
func met(p *proxy) {
	for hits := 0; hits == 0; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		hits = p.hits
		p.mu.Unlock()
	}
}

// The faults end only when all delayed bytes have arrived.
func TestTheFaultsEndWhenAllThatIsLateHasArrived(t *testing.T) {
	t.Parallel()
	r := &run{zero: clock.Boot()}
	by := r.now() + 100*time.Millisecond
	r.arrivesBy(by)
	r.arrivesBy(by - 50*time.Millisecond)
	if r.arrived(); r.now() < by {
		t.Error("the faults ended before all late bytes had arrived")
	}
}

// Delayed bytes arrive after the client was reset, a piece at a time.
func TestDelayedBytesArriveAfterTheReset(t *testing.T) {
	addr, heard := sink(t)
	p, err := newProxy("tcp", addr, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	c := connect(t, p)
	p.strike(late, 10*time.Millisecond)
	if _, err := c.Write([]byte("ask")); err != nil {
		t.Fatal(err)
	}
	met(p)
	if _, err := c.Write([]byte("end")); err != nil {
		t.Fatal(err)
	}
	for pieces := 0; pieces < 2; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		pieces = p.hits
		p.mu.Unlock()
	}
	select {
	case s := <-heard:
		t.Fatalf("the server heard %q before the reset", s)
	default:
	}
	p.mend()
	if b, err := io.ReadAll(c); err == nil || len(b) > 0 {
		t.Errorf("the client got %q, %v, want a reset", b, err)
	}
	if first, second := hear(t, heard), hear(t, heard); first != "ask" || second != "end" {
		t.Errorf("the server heard %q and %q, want ask and end", first, second)
	}
	if b, err := ask4(connect(t, p), "."); err != nil || b != "." {
		t.Errorf("once restored: got %q, %v", b, err)
	}
}
