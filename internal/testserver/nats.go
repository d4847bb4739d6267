package testserver

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// NATS starts a NATS server with JetStream for this test; config is added to its configuration.
func NATS(t testing.TB, config string) *Server {
	t.Helper()
	s, err := startNATS(t, t.TempDir(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedNATS returns the address of a NATS server that all tests of this test binary share. Use
// a bucket of your own, and do not configure the server.
func SharedNATS(t testing.TB) string {
	t.Helper()
	return sharedNATS.share(t)
}

var sharedNATS = sharedKind{"nats", func(tb fataler, dir string) (*Server, error) { return startNATS(tb, dir, "") }}

// NATSCluster starts a cluster of n NATS servers for this test, and returns when JetStream is
// ready on all of them.
func NATSCluster(t testing.TB, n int) []*Server {
	t.Helper()
	routes := make([]string, n)
	for i := range routes {
		port, err := freePort(t)
		if err != nil {
			t.Fatal(err)
		}
		routes[i] = "127.0.0.1:" + strconv.Itoa(port)
	}
	all := make([]*Server, n)
	failed := make(chan error, n)
	for i := range all { // none is ready before most of them are running
		port, err := freePort(t)
		if err != nil {
			t.Fatal(err)
		}
		config := natsRoutes(routes, i)
		s, err := natsOnPort(t, t.TempDir(), port, "n"+strconv.Itoa(i), config)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = s
		go func() { failed <- s.start() }()
	}
	for range all {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	for _, s := range all {
		t.Cleanup(s.Stop)
	}
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// NATSLeaf starts a NATS server with the JetStream domain "hub" for this test, and a leaf node
// of it with a domain of its own.
func NATSLeaf(t testing.TB) (hub, leaf *Server) {
	t.Helper()
	port, err := freePort(t)
	if err != nil {
		t.Fatal(err)
	}
	at := "127.0.0.1:" + strconv.Itoa(port)
	// The last jetstream setting in the configuration wins.
	hub = NATS(t, fmt.Sprintf("jetstream { store_dir: %q, domain: hub }\nleafnodes { listen: %q }", t.TempDir(), at))
	leaf = NATS(t, fmt.Sprintf("jetstream { store_dir: %q, domain: leaf }\nleafnodes { remotes: [ { url: \"nats://%s\" } ] }", t.TempDir(), at))
	return hub, leaf
}

func startNATS(tb fataler, dir, config string) (*Server, error) {
	return startOnPort(tb, func(port int) (*Server, error) {
		s, err := natsOnPort(tb, dir, port, "n0", config)
		if err != nil {
			return nil, err
		}
		return s, s.start()
	})
}

// natsRoutes returns the cluster configuration of one server.
func natsRoutes(routes []string, i int) string {
	return fmt.Sprintf("cluster { name: test, listen: %q, routes: [%s] }", routes[i], `"nats://`+strings.Join(routes, `", "nats://`)+`"`)
}

func natsOnPort(tb fataler, dir string, port int, name, config string) (*Server, error) {
	monitor, err := freePort(tb)
	if err != nil {
		return nil, err
	}
	return natsServer(tb, dir, "127.0.0.1:"+strconv.Itoa(port), "127.0.0.1:"+strconv.Itoa(monitor), name, config)
}

func natsServer(tb fataler, dir, addr, monitor, name, config string) (*Server, error) {
	_, program, err := chosen("nats")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "nats.conf")
	all := fmt.Sprintf("server_name: %s\nlisten: %q\nhttp: %q\njetstream { store_dir: %q }\n%s\n", name, addr, monitor, dir+"/data", config)
	if err := os.WriteFile(file, []byte(all), 0o600); err != nil {
		return nil, err
	}
	return &Server{
		Addr: addr, Monitor: monitor, tb: tb, dir: dir,
		command: func() *exec.Cmd { return exec.Command(program, "-c", file) },
		ready:   func(string) error { return natsReady(monitor) },
	}, nil
}

// StartNATS starts a NATS server with JetStream in a directory, for a program that is not a
// test. Stop ends it and panics if that fails.
func StartNATS(dir, config string) (*Server, error) {
	return startNATS(panicker{}, dir, config)
}

// natsReady returns nil once the server is ready for clients and for JetStream.
func natsReady(monitor string) error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + monitor + "/healthz")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(r.Body)
		return fmt.Errorf("%s: %s", r.Status, why)
	}
	return nil
}
