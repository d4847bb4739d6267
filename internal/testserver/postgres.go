package testserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Postgres starts a PostgreSQL server for this test, with the settings in args (as on its
// command line, "-c", "max_connections=5"). Its superuser is postgres, without a password, and
// it has a database of that name. It does not sync to disk, which is enough for tests that do
// not simulate a power failure; pass "-c", "fsync=on" where that matters.
//
// When a server is killed, its backends are killed too.
func Postgres(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := startPostgres(t, t.TempDir(), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedPostgres returns the address of a PostgreSQL server that all tests of this test binary
// share. Use a schema of your own, and do not configure the server.
func SharedPostgres(t testing.TB) string {
	t.Helper()
	return sharedPostgres.share(t)
}

var sharedPostgres = sharedKind{"postgres", func(tb fataler, dir string) (*Server, error) {
	return startPostgres(tb, dir, []string{"-c", "max_connections=300"})
}}

// PostgresReplica starts an asynchronous replica of a PostgreSQL server for this test, and
// returns when it can be read.
func PostgresReplica(t testing.TB, primary *Server, args ...string) *Server {
	t.Helper()
	s, err := startPostgresReplica(t, t.TempDir(), primary, args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// PostgresURL returns the URL of the superuser's database on the server at addr, with more
// parameters of the driver ("application_name=x").
func PostgresURL(addr string, params ...string) string {
	url := "postgres://postgres@" + addr + "/postgres?sslmode=disable"
	for _, p := range params {
		url += "&" + p
	}
	return url
}

// Promote makes a PostgreSQL replica an independent server.
func (s *Server) Promote() {
	s.tb.Helper()
	_, program, err := chosen("postgres")
	if err == nil {
		bin := filepath.Dir(program)
		var user *account
		if user, err = unprivileged("postgres"); err == nil {
			err = user.run(filepath.Join(bin, "pg_ctl"), "promote", "-D", filepath.Join(s.dir, "data"), "-w", "-t", strconv.Itoa(int(patience.Seconds())))
		}
	}
	if err != nil {
		s.tb.Fatalf("promote: %v: %s", err, s.logTail())
	}
}

func startPostgres(tb fataler, dir string, args []string) (*Server, error) {
	return postgresIn(tb, dir, args, func(bin, data string, user *account) error {
		return user.copyOf("postgres", data, func(data string) error {
			return user.run(filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
		})
	})
}

func startPostgresReplica(tb fataler, dir string, primary *Server, args []string) (*Server, error) {
	return postgresIn(tb, dir, args, func(bin, data string, user *account) error {
		host, port, _ := net.SplitHostPort(primary.Addr)
		return user.run(filepath.Join(bin, "pg_basebackup"), "-D", data, "-h", host, "-p", port, "-U", "postgres",
			"-R", "-X", "stream", "--checkpoint=fast", "--no-sync")
	})
}

// postgresIn makes a database in dir and starts a server on it.
func postgresIn(tb fataler, dir string, args []string, fill func(bin, data string, user *account) error) (*Server, error) {
	_, program, err := chosen("postgres")
	if err != nil {
		return nil, err
	}
	bin := filepath.Dir(program)
	user, err := unprivileged("postgres")
	if err != nil {
		return nil, err
	}
	if err := user.own(dir); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := fill(bin, data, user); err != nil {
		return nil, err
	}
	return startOnPort(tb, func(port int) (*Server, error) {
		own := []string{"-D", data, "-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(port),
			"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "log_checkpoints=off"}
		s := &Server{
			Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
			tb:   tb, dir: dir, user: user, ready: postgresReady, stop: os.Interrupt,
			command: func() *exec.Cmd {
				return exec.Command(program, append(slices.Clone(own), args...)...)
			},
		}
		return s, s.start()
	})
}

// postgresBin returns the directory of the newest installed PostgreSQL. Debian keeps its
// programs out of the PATH so that several versions can be installed.
func postgresBin() (string, error) {
	var found []string
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			found = append(found, path)
		}
	}
	for _, where := range []string{"/usr/lib/postgresql/*", "/usr/pgsql-*", "/usr/libexec/postgresql*", "/opt/homebrew/opt/postgresql*", "/usr/local/opt/postgresql*"} {
		paths, _ := filepath.Glob(where + "/bin/initdb")
		slices.SortFunc(paths, func(a, b string) int { return postgresVersion(b) - postgresVersion(a) })
		found = append(found, paths...)
	}
	for _, path := range found {
		if bin := filepath.Dir(path); exists(filepath.Join(bin, "postgres")) {
			return bin, nil
		}
	}
	return "", errors.New("PostgreSQL (initdb and postgres) is needed by this test and is not installed: run \"make servers\"")
}

// postgresVersion returns the number in the path of a PostgreSQL program, or 0.
func postgresVersion(path string) int {
	digits := strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, path)
	n, _ := strconv.Atoi(digits)
	return n
}

// postgresReady returns nil once the server answers a client's first message with anything but
// that it is still starting up.
func postgresReady(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	const params = "user\x00postgres\x00database\x00postgres\x00\x00"
	length := 8 + len(params)
	hello := append([]byte{0, 0, 0, byte(length), 0, 3, 0, 0}, params...)
	if _, err := c.Write(hello); err != nil {
		return err
	}
	b := make([]byte, 200)
	n, err := c.Read(b)
	if err != nil {
		return err
	}
	if b[0] != 'R' {
		return fmt.Errorf("got the answer %q", b[:n])
	}
	c.Write([]byte{'X', 0, 0, 0, 4})
	return nil
}

// StartPostgres starts a PostgreSQL server in a directory, for a program that is not a test.
// Stop ends it and panics if that fails.
func StartPostgres(dir string, args ...string) (*Server, error) {
	return startPostgres(panicker{}, dir, args)
}
