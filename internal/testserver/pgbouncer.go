package testserver

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// PgBouncer starts PgBouncer for this test in front of the PostgreSQL server at addr: in
// transaction mode, with size connections to the server, all as its superuser.
func PgBouncer(t testing.TB, addr string, size int) *Server {
	t.Helper()
	s, err := startPgBouncer(t, t.TempDir(), addr, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func startPgBouncer(tb fataler, dir, addr string, size int) (*Server, error) {
	_, program, err := chosen("pgbouncer")
	if err != nil {
		return nil, err
	}
	user, err := unprivileged("postgres")
	if err != nil {
		return nil, err
	}
	if err := user.own(dir); err != nil {
		return nil, err
	}
	host, serverPort, _ := net.SplitHostPort(addr)
	return startOnPort(tb, func(port int) (*Server, error) {
		conf := filepath.Join(dir, "pgbouncer.ini")
		text := fmt.Sprintf("[databases]\n* = host=%s port=%s user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\n"+
			"auth_type = any\npool_mode = transaction\nmax_client_conn = 1000\ndefault_pool_size = %d\n"+
			"ignore_startup_parameters = extra_float_digits\n", host, serverPort, port, size)
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			return nil, err
		}
		s := &Server{
			Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
			tb:   tb, dir: dir, user: user, ready: postgresReady,
			command: func() *exec.Cmd { return exec.Command(program, conf) },
		}
		return s, s.start()
	})
}
