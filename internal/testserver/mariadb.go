package testserver

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// MariaDB starts a MariaDB server for this test, with the settings in args (as on its command
// line, "--log-bin", "--max-connections=5"). Its superuser is root, without a password, and it
// has the databases that MariaDBDSN names. Acknowledged writes survive a kill of the server. It
// does not sync to disk, which is enough for tests that do not simulate a power failure.
func MariaDB(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := startMariaDB(t, t.TempDir(), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedMariaDB returns the address of a MariaDB server that all tests of this test binary
// share. Use tables of your own, and do not configure the server.
func SharedMariaDB(t testing.TB) string {
	t.Helper()
	return sharedMariaDB.share(t)
}

var sharedMariaDB = sharedKind{"mariadb", func(tb fataler, dir string) (*Server, error) {
	return startMariaDB(tb, dir, []string{"--max-connections=2000"})
}}

// MariaDBDSN returns the driver's DSN of the superuser's database "locks" on the server at
// addr, with more parameters ("parseTime=true").
func MariaDBDSN(addr string, params ...string) string {
	dsn := "root@tcp(" + addr + ")/locks"
	for i, p := range params {
		dsn += string("?&"[min(i, 1)]) + p
	}
	return dsn
}

func startMariaDB(tb fataler, dir string, args []string) (*Server, error) {
	return mariaDBIn(tb, dir, args, nil)
}

// mariaDBIn starts a server. If prepare is not nil, it changes the server's data first.
func mariaDBIn(tb fataler, dir string, args []string, prepare func(data string, user *account) error) (*Server, error) {
	l, program, err := chosen("mysql")
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(l.Name, "mysql") {
		return startMySQL(tb, dir, program, args)
	}
	var paths []string // where an unpacked program finds its own files
	install := ""
	if l.Installed {
		install, err = find("mariadb-install-db")
	} else {
		own := filepath.Join(l.dir(), "usr")
		install = filepath.Join(own, "bin", "mariadb-install-db")
		paths = []string{"--basedir=" + own, "--lc-messages-dir=" + filepath.Join(own, "share", "mysql"), "--plugin-dir=" + filepath.Join(own, "lib", "mysql", "plugin")}
	}
	if err != nil {
		return nil, err
	}
	user, err := unprivileged("mysql")
	if err != nil {
		return nil, err
	}
	if err := user.own(dir); err != nil {
		return nil, err
	}
	// Temporary tables get a directory of their own: this server crashes if it cannot create
	// one, for example because a killed server has left one with the same name.
	small := func(data string) []string {
		return append([]string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + dir, "--innodb-log-file-size=16M", "--innodb-flush-method=nosync"}, paths...)
	}
	data := filepath.Join(dir, "data")
	err = user.copyOf("mariadb", data, func(data string) error {
		first := filepath.Join(dir, "first.sql")
		if err := os.WriteFile(first, []byte("CREATE DATABASE locks;\n"), 0o644); err != nil {
			return err
		}
		return user.run(install, append(small(data), "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--extra-file="+first)...)
	})
	if err == nil && prepare != nil {
		err = prepare(data, user)
	}
	if err != nil {
		return nil, err
	}
	return startOnPort(tb, func(port int) (*Server, error) {
		own := append(small(data), "--bind-address=127.0.0.1", "--port="+strconv.Itoa(port), "--skip-name-resolve",
			"--socket=sock", "--pid-file=pid", "--innodb-buffer-pool-size=32M")
		s := &Server{
			Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
			tb:   tb, dir: dir, user: user, ready: mariaDBReady,
			command: func() *exec.Cmd { return exec.Command(program, append(own, args...)...) },
		}
		return s, s.start()
	})
}

// mariaDBReady returns nil once the server sends its greeting to a new connection.
func mariaDBReady(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	b := make([]byte, 5) // a length, a number, and the protocol version
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	if b[4] != 10 {
		return fmt.Errorf("got the answer %q", bytes.TrimSpace(b))
	}
	return nil
}

// StartMariaDB starts a MariaDB server in a directory, for a program that is not a test. Stop
// ends it and panics if that fails.
func StartMariaDB(dir string, args ...string) (*Server, error) {
	return startMariaDB(panicker{}, dir, args)
}
