package testserver

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Etcd starts an etcd server for this test, a cluster of one. Its election timeout is short, so
// it grants leases of one second.
func Etcd(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := startEtcd(t, t.TempDir(), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// EtcdTLS is Etcd over TLS only. args configure the server's certificate; config is for a
// client that the server accepts.
func EtcdTLS(t testing.TB, config *tls.Config, args ...string) *Server {
	t.Helper()
	s, err := startOnPort(t, func(port int) (*Server, error) {
		url := "https://127.0.0.1:" + strconv.Itoa(port)
		s, err := etcdAlone(t, t.TempDir(), port, append([]string{"--listen-client-urls", url, "--advertise-client-urls", url}, args...))
		if err != nil {
			return nil, err
		}
		s.ready = func(string) error {
			client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}}
			r, err := client.Get(url + "/health") // healthy once it has a leader
			if err != nil {
				return err
			}
			r.Body.Close()
			if r.StatusCode != http.StatusOK {
				return errors.New(r.Status)
			}
			return nil
		}
		return s, s.start()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedEtcd returns the address of an etcd server that all tests of this test binary share.
// Use a prefix of your own, and do not configure the server.
func SharedEtcd(t testing.TB) string {
	t.Helper()
	return sharedEtcd.share(t)
}

var sharedEtcd = sharedKind{"etcd", func(tb fataler, dir string) (*Server, error) { return startEtcd(tb, dir, nil) }}

// EtcdCluster starts a cluster of n etcd servers for this test, and returns when all of them
// know their leader.
func EtcdCluster(t testing.TB, n int) []*Server {
	t.Helper()
	for try := 1; ; try++ {
		all, err := etcdCluster(t, n)
		if err == nil {
			for _, s := range all {
				t.Cleanup(s.Stop)
			}
			return all
		}
		for _, s := range all {
			if s.PID != 0 {
				s.Kill()
			}
		}
		if try == 5 || !strings.Contains(err.Error(), "in use") { // another program took a port meanwhile
			t.Fatal(err)
		}
	}
}

// etcdCluster returns the servers that it began to start, even with an error.
func etcdCluster(t testing.TB, n int) (all []*Server, err error) {
	members := make([]etcdMember, n)
	for i := range members {
		for _, at := range []*string{&members[i].client, &members[i].peer} {
			port, err := freePort(t)
			if err != nil {
				return nil, err
			}
			*at = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}
	if all, err = etcdMembers(t, members); err != nil {
		return nil, err
	}
	return all, startAll(all)
}

// An etcdMember has the addresses of a cluster member for clients and for the other members.
type etcdMember struct{ client, peer string }

func etcdMembers(t testing.TB, members []etcdMember) (all []*Server, err error) {
	var initial []string
	for i, m := range members {
		initial = append(initial, fmt.Sprintf("n%d=http://%s", i, m.peer))
	}
	for i, m := range members {
		s, err := etcdServer(t, t.TempDir(), m, fmt.Sprintf("n%d", i), strings.Join(initial, ","), nil)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// startAll starts servers that answer only once most of them are running.
func startAll(all []*Server) (err error) {
	started := make(chan error, len(all))
	for _, s := range all {
		go func() { started <- s.start() }()
	}
	for range all {
		err = errors.Join(err, <-started)
	}
	return err
}

// EtcdLeader returns the index of the leader among the members.
func EtcdLeader(t testing.TB, members []*Server) (leader int) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for i, s := range members {
			if id, lead, err := etcdStatus(s.Addr); err == nil && lead != "" && id == lead {
				return i
			}
		}
	}
	t.Fatalf("after %v no member is the leader", patience)
	return 0
}

func startEtcd(tb fataler, dir string, args []string) (*Server, error) {
	return startOnPort(tb, func(port int) (*Server, error) {
		s, err := etcdAlone(tb, dir, port, args)
		if err != nil {
			return nil, err
		}
		return s, s.start()
	})
}

func etcdAlone(tb fataler, dir string, port int, args []string) (*Server, error) {
	peer, err := freePort(tb)
	if err != nil {
		return nil, err
	}
	at := etcdMember{net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), net.JoinHostPort("127.0.0.1", strconv.Itoa(peer))}
	return etcdServer(tb, dir, at, "n0", "n0=http://"+at.peer, args)
}

func etcdServer(tb fataler, dir string, at etcdMember, name, initial string, args []string) (*Server, error) {
	_, program, err := chosen("etcd")
	if err != nil {
		return nil, err
	}
	addr, peerURL := at.client, "http://"+at.peer
	args = append([]string{
		"--name", name, "--data-dir", dir + "/data", "--listen-client-urls", "http://" + addr, "--advertise-client-urls", "http://" + addr,
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL, "--initial-cluster", initial,
		"--heartbeat-interval", "50", "--election-timeout", "500", "--unsafe-no-fsync",
	}, args...)
	return &Server{
		Addr: addr, tb: tb, dir: dir, ready: etcdReady,
		command: func() *exec.Cmd { return exec.Command(program, args...) },
	}, nil
}

// etcdReady returns nil once the member knows a leader.
func etcdReady(addr string) error {
	_, lead, err := etcdStatus(addr)
	if err == nil && (lead == "" || lead == "0") {
		err = fmt.Errorf("the member knows no leader")
	}
	return err
}

// etcdStatus gets a member's id and its leader's id from the member's HTTP gateway.
func etcdStatus(addr string) (id, lead string, err error) {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Post("http://"+addr+"/v3/maintenance/status", "application/json", strings.NewReader("{}"))
	if err != nil {
		return "", "", err
	}
	defer r.Body.Close()
	var status struct {
		Header struct {
			Member string `json:"member_id"`
		} `json:"header"`
		Leader string `json:"leader"`
	}
	if err := json.NewDecoder(r.Body).Decode(&status); err != nil {
		return "", "", err
	}
	return status.Header.Member, status.Leader, nil
}
