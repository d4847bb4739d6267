package prove

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"
)

// A Dial makes a connection to an address of the store, like the DialContext of a
// net.Dialer. In a process of a run the connection goes through that process's own
// proxy for the address.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// routes are the proxies that a process knows of. It asks its parent once for the
// proxy of each address that it dials.
type routes struct {
	mu  sync.Mutex
	all map[string]*route
}

type route struct {
	known chan struct{} // closed when the parent has answered
	via   string        // the address of the proxy
}

// target returns an address in the form that a process and its parent exchange.
func target(network, addr string) string { return network + " " + addr }

// dial is the Dial of a process.
func (c *child) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	to := target(network, addr)
	c.routes.mu.Lock()
	x, ok := c.routes.all[to]
	if !ok {
		x = &route{known: make(chan struct{})}
		c.routes.all[to] = x
	}
	c.routes.mu.Unlock()
	if !ok {
		c.send(Event{Do: dialled, Text: to})
	}
	select {
	case <-x.known:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", x.via)
}

// know records the parent's answer.
func (c *child) know(to, via string) {
	c.routes.mu.Lock()
	defer c.routes.mu.Unlock()
	if x := c.routes.all[to]; x != nil && x.via == "" {
		x.via = via
		close(x.known)
	}
}

// own reports whether the address is that of one of this process's proxies.
func (c *child) own(addr string) bool {
	c.routes.mu.Lock()
	defer c.routes.mu.Unlock()
	for _, x := range c.routes.all {
		if x.via == addr {
			return true
		}
	}
	return false
}

// patrol reports each connection of this process that bypasses its proxies, except
// inherited ones (born).
func (c *child) patrol(born []string, stop <-chan struct{}) {
	known := map[string]bool{}
	for _, addr := range born {
		known[addr] = true
	}
	for {
		for _, addr := range peers() {
			if !c.own(addr) && !known[addr] { //mutant:judge-nobody-looks-where-connections
				known[addr] = true
				c.send(Event{Do: astray, Text: addr})
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// via returns the address of the process's proxy for an address that it dials. It
// makes the proxy if there is none yet. A present fault of all links strikes the
// new proxy too.
func (p *process) via(to string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if addr, ok := p.proxies[to]; ok {
		return addr, nil
	}
	network, addr, _ := strings.Cut(to, " ")
	x, err := newProxy(network, addr, p.r.o.Seed+uint64(p.n<<8+len(p.links)))
	if err != nil {
		return "", err
	}
	if s := p.onLinks; s != nil {
		x.strike(s.fault, s.delay)
	}
	p.links = append(p.links, x)
	p.proxies[to] = x.addr()
	return x.addr(), nil
}
