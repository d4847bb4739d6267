package testserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
)

// A portRange has the ports for servers, which are given out in turn. A server keeps its port
// while it is stopped, so the port is reserved:
//
//   - Against the other test binaries, which run at the same time and perhaps as another user,
//     by a UDP socket on the port. No server here uses UDP. The socket is closed when the
//     process ends, however it ends.
//   - Against clients and listeners that let the kernel choose a port: the kernel does not
//     choose from this range.
//
// Since ports are given out in turn, the port of an ended test is used again as late as
// possible: a client may be left that still tries to connect to it.
type portRange struct {
	first, last int

	mu   sync.Mutex
	next int                    // 0: none has been given
	held map[int]net.PacketConn // by port
}

// leastPorts is how many ports a range needs: the tests reserve a few hundred in all.
const leastPorts = 2000

// ports is the range of this process.
var ports = sync.OnceValue(func() *portRange {
	from, to := ephemeralPorts()
	r, apart := portsApart(from, to)
	if !apart {
		fmt.Fprintf(os.Stderr, "testserver: the kernel gives ports %d to %d to clients, which leaves too few for servers: "+
			"a restarted server may find its port in use (set net.ipv4.ip_local_port_range to 32768 60999)\n", from, to)
	}
	return r
})

// portsApart returns the larger range outside the kernel's ephemeral ports. If that is too
// small, it returns all ports from 10000 on, and apart is false.
func portsApart(from, to int) (r *portRange, apart bool) {
	const first, last = 10000, 65535
	below, above := from-first, last-to
	switch {
	case below >= leastPorts && below >= above:
		return &portRange{first: first, last: from - 1}, true
	case above >= leastPorts:
		return &portRange{first: max(first, to+1), last: last}, true
	}
	return &portRange{first: first, last: last}, false
}

// ephemeralPorts is the range from which the kernel chooses a port. Where the kernel does not
// say, it is IANA's.
func ephemeralPorts() (from, to int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(text), &from, &to)
	}
	if err != nil || from < 1 || to < from {
		return 49152, 65535
	}
	return from, to
}

// reserve returns a port that is not in use and not reserved, and the function that ends its
// reservation.
func (r *portRange) reserve() (port int, end func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := r.last - r.first + 1
	if r.next == 0 {
		r.next = r.first + rand.IntN(size) // other processes begin elsewhere
	}
	for range size {
		port = r.next
		if r.next++; r.next > r.last {
			r.next = r.first
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		var lock net.PacketConn
		if lock, err = net.ListenPacket("udp4", addr); err != nil {
			continue // reserved
		}
		var l net.Listener
		if l, err = net.Listen("tcp4", addr); err != nil {
			lock.Close()
			continue // in use
		}
		l.Close()
		if r.held == nil {
			r.held = map[int]net.PacketConn{}
		}
		r.held[port] = lock // otherwise it would be garbage-collected, and so closed
		return port, func() { r.free(port) }, nil
	}
	return 0, nil, errors.Join(fmt.Errorf("no port from %d to %d is free", r.first, r.last), err)
}

// free ends the reservation of a port.
func (r *portRange) free(port int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[port].Close()
	delete(r.held, port)
}

// FreePort returns a loopback port where nothing listens. No server of any test gets it before
// this process has ended.
func FreePort() (int, error) { return freePort(panicker{}) }

// freePort is FreePort, but the port is reserved until the test ends.
func freePort(tb fataler) (int, error) {
	port, end, err := ports().reserve()
	if err == nil {
		tb.Cleanup(end)
	}
	return port, err
}
