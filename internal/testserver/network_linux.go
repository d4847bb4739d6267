package testserver

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// A Network joins hosts that servers run on. Each host has one address for the other hosts and one for the test. A
// host that is cut off from the others can still be reached by the test, like clients on one side of a split network.
type Network struct {
	t     testing.TB
	name  string // of its namespaces: those of its hosts add their numbers
	first uint32 // of the addresses at which the test reaches the hosts
}

// NewNetwork makes a network of n hosts, which is removed when the test ends. It needs root, to make namespaces. The
// test is skipped where the machine does not allow that.
func NewNetwork(t testing.TB, n int) *Network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make networks")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("iproute2, which creates networks, is not installed: ", err)
	}
	const tests, room = 198<<24 | 18<<16, 1 << 17 // addresses reserved for network tests
	w := &Network{t, fmt.Sprintf("hf%06x", rand.IntN(1<<24)), tests + 4*uint32(n)*rand.Uint32N(room/4/uint32(n))}
	if out, err := exec.Command("ip", "netns", "add", w.name).CombinedOutput(); err != nil {
		t.Skipf("this machine does not allow new networks: %v: %s", err, out)
	}
	t.Cleanup(func() { w.ip("netns", "del", w.name) })
	w.ip("-n", w.name, "link", "add", "between", "type", "bridge")
	w.ip("-n", w.name, "link", "set", "between", "up")
	for i := range n {
		host := w.host(i)
		w.ip("netns", "add", host)
		t.Cleanup(func() { w.ip("netns", "del", host) })
		w.ip("-n", host, "link", "set", "lo", "up")
		w.ip("-n", host, "link", "add", "others", "type", "veth", "peer", "name", port(i), "netns", w.name)
		w.ip("-n", host, "addr", "add", w.Peer(i)+"/24", "dev", "others")
		w.ip("-n", host, "link", "set", "others", "up")
		w.ip("-n", w.name, "link", "set", port(i), "master", "between", "up")
		w.ip("link", "add", host, "type", "veth", "peer", "name", "test", "netns", host)
		w.ip("addr", "add", w.address(4*i+1)+"/30", "dev", host)
		w.ip("link", "set", host, "up")
		w.ip("-n", host, "addr", "add", w.Addr(i)+"/30", "dev", "test")
		w.ip("-n", host, "link", "set", "test", "up")
	}
	return w
}

func port(i int) string { return "port" + strconv.Itoa(i) }

func (w *Network) host(i int) string { return w.name + "h" + strconv.Itoa(i) }

func (w *Network) address(of int) string {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], w.first+uint32(of))
	return netip.AddrFrom4(b).String()
}

// Addr returns the address at which the test reaches a host.
func (w *Network) Addr(i int) string { return w.address(4*i + 2) }

// Peer returns the address at which the other hosts reach it.
func (w *Network) Peer(i int) string { return fmt.Sprintf("10.77.77.%d", i+1) }

// CutOff cuts a host off from the others.
func (w *Network) CutOff(i int) { w.ip("-n", w.name, "link", "set", port(i), "down") }

// Mend connects the host again.
func (w *Network) Mend(i int) { w.ip("-n", w.name, "link", "set", port(i), "up") }

func (w *Network) ip(args ...string) {
	w.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		w.t.Fatalf("ip %q: %v: %s", args, err, out)
	}
}

// EtcdApart starts a cluster of n etcd servers, each on its own host.
func EtcdApart(t testing.TB, n int) ([]*Server, *Network) {
	t.Helper()
	w := NewNetwork(t, n)
	members := make([]etcdMember, n)
	for i := range members {
		members[i] = etcdMember{client: w.Addr(i) + ":2379", peer: w.Peer(i) + ":2380"}
	}
	all, err := etcdMembers(t, members)
	if err != nil {
		t.Fatal(err)
	}
	w.run(all)
	return all, w
}

// NATSApart starts a cluster of n NATS servers, each on its own host.
func NATSApart(t testing.TB, n int) ([]*Server, *Network) {
	t.Helper()
	w := NewNetwork(t, n)
	routes, all := make([]string, n), make([]*Server, n)
	for i := range routes {
		routes[i] = w.Peer(i) + ":6222"
	}
	for i := range all {
		var err error
		if all[i], err = natsServer(t, t.TempDir(), w.Addr(i)+":4222", w.Addr(i)+":8222", fmt.Sprint("n", i), natsRoutes(routes, i)); err != nil {
			t.Fatal(err)
		}
	}
	w.run(all)
	return all, w
}

// run starts the servers, each on its host.
func (w *Network) run(all []*Server) {
	w.t.Helper()
	for i, s := range all {
		command := s.command
		s.command = func() *exec.Cmd {
			c := command()
			return exec.Command("ip", append([]string{"netns", "exec", w.host(i)}, c.Args...)...)
		}
		w.t.Cleanup(s.Stop)
	}
	if err := startAll(all); err != nil {
		w.t.Fatal(err)
	}
}
