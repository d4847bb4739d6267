package testserver

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// givenEnv makes a child print the ports that it is given, starting from that one, and keep them until its input ends.
const givenEnv = "HOLDFAST_TEST_GIVEN_PORTS_FROM"

const givenPorts = 200

// A giver is a child that has been given ports.
type giver struct {
	ports []int
	end   func() // it also waits for the child
}

func newGiver(t *testing.T, from int) *giver {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestProcessesAreNeverGivenTheSamePort$")
	cmd.Env = append(os.Environ(), givenEnv+"="+strconv.Itoa(from))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := &giver{end: func() { in.Close(); cmd.Wait() }}
	t.Cleanup(g.end)
	for lines := bufio.NewScanner(out); len(g.ports) < givenPorts && lines.Scan(); {
		port, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("a child printed %q", lines.Text())
		}
		g.ports = append(g.ports, port)
	}
	if len(g.ports) < givenPorts {
		t.Fatalf("a child got %d ports, want %d", len(g.ports), givenPorts)
	}
	return g
}

// While a server is stopped, nothing listens on its port. The port must not be given to others all the same: not in
// this process, and not in a parallel one.
func TestProcessesAreNeverGivenTheSamePort(t *testing.T) {
	if from := os.Getenv(givenEnv); from != "" {
		r := ports()
		r.next, _ = strconv.Atoi(from)
		for range givenPorts {
			port, err := FreePort()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println(port)
		}
		os.Stdin.Read(make([]byte, 1))
		return
	}
	first, err := freePort(t)
	if err != nil {
		t.Fatal(err)
	}
	owner := map[int]string{first: "this process"}
	take := func(who string, port int) {
		if other := owner[port]; other != "" {
			t.Errorf("port %d was given to %s and to %s", port, other, who)
		}
		owner[port] = who
	}
	for range givenPorts {
		port, err := freePort(t)
		if err != nil {
			t.Fatal(err)
		}
		take("this process", port)
	}
	var all []*giver
	for i := range 3 {
		g := newGiver(t, first)
		for _, port := range g.ports {
			take(fmt.Sprint("child ", i), port)
		}
		all = append(all, g)
	}

	all[0].end()
	if free := freed(t, all[0].ports); free == 0 {
		t.Error("the ports of a process that has ended stay reserved")
	}
	if free := freed(t, all[1].ports); free > 0 {
		t.Errorf("%d ports of a process that runs are free", free)
	}
}

// freed is how many of the ports can be reserved now. Other processes may be quicker.
func freed(t *testing.T, all []int) (free int) {
	t.Helper()
	for _, port := range all {
		only := &portRange{first: port, last: port}
		if _, end, err := only.reserve(); err == nil {
			t.Cleanup(end)
			free++
		}
	}
	return free
}

func TestAPortIsReservedUntilTheTestHasEnded(t *testing.T) {
	var all []int
	t.Run("the one that has them", func(t *testing.T) {
		for range 10 {
			port, err := freePort(t)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, port)
		}
		if free := freed(t, all); free > 0 {
			t.Errorf("%d ports were given twice", free)
		}
	})
	if freed(t, all) == 0 {
		t.Error("no port is free after the test")
	}
}

func TestAUsedPortIsNotReturned(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if freed(t, []int{l.Addr().(*net.TCPAddr).Port}) > 0 {
		t.Errorf("the port of %s was given", l.Addr())
	}
}

func TestPortsAreApartFromThoseTheKernelChooses(t *testing.T) {
	for _, c := range []struct {
		from, to    int
		first, last int
		apart       bool
	}{
		{32768, 60999, 10000, 32767, true},
		{49152, 65535, 10000, 49151, true},
		{16000, 65535, 10000, 15999, true},
		{10000, 40000, 40001, 65535, true},
		{1024, 9999, 10000, 65535, true},
		{1024, 65535, 10000, 65535, false},
		{11000, 64000, 10000, 65535, false},
	} {
		r, apart := portsApart(c.from, c.to)
		if r.first != c.first || r.last != c.last || apart != c.apart {
			t.Errorf("beside %d to %d: %d to %d, apart %v; want %d to %d, %v", c.from, c.to, r.first, r.last, apart, c.first, c.last, c.apart)
		}
	}
}
