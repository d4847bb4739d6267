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

// MariaDB starts a MariaDB server for this test, with the settings in args (as
// on its command line, "--log-bin", "--max-connections=5"). Its superuser is
// root, who needs no password, and it has the databases that MariaDBDSN names.
// What it has answered survives a kill of the server; it does not wait for the
// disk, which is for tests that pull no plug.
func MariaDB(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := startMariaDB(t, t.TempDir(), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedMariaDB returns the address of a MariaDB server that all tests of this
// test binary share: use tables of your own, and do not configure it.
func SharedMariaDB(t testing.TB) string {
	t.Helper()
	return sharedMariaDB.share(t)
}

var sharedMariaDB = sharedKind{"mariadb", func(tb fataler, dir string) (*Server, error) {
	return startMariaDB(tb, dir, []string{"--max-connections=2000"})
}}

// MariaDBDSN is how the driver comes to the superuser's database "locks" on the
// server at addr, with further parameters ("parseTime=true").
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

// mariaDBIn starts a server whose data were changed by prepare, if it is not nil.
func mariaDBIn(tb fataler, dir string, args []string, prepare func(data string, user *account) error) (*Server, error) {
	l, program, err := chosen("mysql")
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(l.Name, "mysql") {
		return startMySQL(tb, dir, program, args)
	}
	var paths []string // where a program that was unpacked finds what belongs to it
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
	// A directory of its own for temporary tables: one that cannot be made, as by
	// what a killed server has left behind, crashes this server.
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

// mariaDBReady says nil once the server greets who connects.
func mariaDBReady(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	b := make([]byte, 5) // a length, a number, and the version of the protocol
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	if b[4] != 10 {
		return fmt.Errorf("it says %q", bytes.TrimSpace(b))
	}
	return nil
}

// StartMariaDB starts a MariaDB server in a directory, for a program that is no
// test. It stops with Stop; a failure of that panics.
func StartMariaDB(dir string, args ...string) (*Server, error) {
	return startMariaDB(panicker{}, dir, args)
}
