package prove

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// A proxy is the link between one process and one address of the store. It passes
// everything on until a fault strikes it.
type proxy struct {
	l        net.Listener
	network  string
	upstream string
	running  sync.WaitGroup

	mu     sync.Mutex
	fault  Fault         // the fault that is on, or empty
	delay  time.Duration // of latency, jitter and late
	rng    *rand.Rand
	hits   int           // how many connections and pieces the fault met
	mended chan struct{} // closed when the fault ends
	conns  map[net.Conn]bool
	struck map[*pair]bool // the pairs that silence or late has met: reset when it ends
	closed chan struct{}
}

func newProxy(network, upstream string, seed uint64) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{l: l, network: network, upstream: upstream, rng: rand.New(rand.NewPCG(seed, 1)), conns: map[net.Conn]bool{}, struck: map[*pair]bool{}, closed: make(chan struct{})}
	p.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(c) })
		}
	})
	return p, nil
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) close() {
	p.mend()
	close(p.closed)
	p.l.Close()
	p.mu.Lock()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// strike begins a fault.
func (p *proxy) strike(f Fault, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.delay, p.hits, p.mended = f, delay, 0, make(chan struct{})
	if f == cut {
		for c := range p.conns {
			p.hits++
			abort(c)
		}
	}
}

// mend ends the fault and returns how much it met.
func (p *proxy) mend() (hits int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == "" {
		return 0
	}
	close(p.mended)
	p.fault = ""
	p.resetStruck()
	return p.hits
}

// add registers a connection until remove. If a fault forbids new ones, it closes
// the connection and returns false.
func (p *proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == cut {
		p.hits++
		abort(c)
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.Close()
	delete(p.conns, c)
}

func (p *proxy) serve(client net.Conn) {
	if !p.add(client) {
		return
	}
	defer p.remove(client)
	server, err := net.DialTimeout(p.network, p.upstream, 5*time.Second)
	if err != nil {
		return
	}
	if !p.add(server) {
		return
	}
	defer p.remove(server)
	var both sync.WaitGroup
	x := &pair{client: client, server: server}
	pump := func(to, from net.Conn, reply bool) {
		defer to.Close()
		defer from.Close()
		b := make([]byte, 1<<16)
		for {
			n, err := from.Read(b)
			if n > 0 && !p.keeps(x, b[:n], reply) && p.pass(to, b[:n], reply) != nil || err != nil {
				break
			}
		}
		if !reply {
			p.deliver(x)
		}
	}
	both.Go(func() { pump(server, client, false) })
	both.Go(func() { pump(client, server, true) })
	both.Wait()
}

// abort closes a connection, by a reset if it is TCP.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

var errReset = errors.New("reset by the fault")

// pass passes on a piece, as far as the present fault lets it.
func (p *proxy) pass(to net.Conn, piece []byte, reply bool) error {
	f, delay, mended := p.meet(reply)
	switch f {
	case halfCut:
		<-mended // and then it arrives, late
	case latency, jitter:
		time.Sleep(delay)
	case reset:
		to.Write(piece[:len(piece)/2])
		abort(to)
		return errReset
	case slow:
		for met := true; met && len(piece) > 8; {
			if _, err := to.Write(piece[:8]); err != nil {
				return err
			}
			piece = piece[8:]
			select {
			case <-time.After(delay):
			case <-mended: // otherwise a long reply would stay slow for many seconds
				met = false //mutant:prove-slow-ends
			}
		}
	}
	_, err := io.Writer(to).Write(piece)
	return err
}

// meet returns the fault that strikes a piece; empty: none.
func (p *proxy) meet(reply bool) (f Fault, delay time.Duration, mended <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch f, delay = p.fault, p.delay; f {
	case "", silence, late: // see keeps
		return "", 0, nil
	case halfCut:
		if !reply {
			return "", 0, nil
		}
	case reset:
		if !reply || p.rng.IntN(3) > 0 {
			return "", 0, nil
		}
	case jitter:
		delay = time.Duration(p.rng.Int64N(int64(delay)) + 1)
	case slow:
		delay = time.Millisecond
	}
	p.hits++
	return f, delay, p.mended
}
