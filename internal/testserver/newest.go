package testserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Redis8 is Redis for a server of version 8, which scripts/newest-servers has
// unpacked. The test is skipped where no suite of Debian's that has one could be
// reached, and fails where it is missing for any other reason.
func Redis8(t testing.TB, args ...string) *Server {
	t.Helper()
	return redisOf(t, newest(t, "redis-8"), args)
}

// Redis8Cluster is RedisCluster of servers as Redis8 starts.
func Redis8Cluster(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	masters, _ := redisCluster(t, newest(t, "redis-8"), n, false, args...)
	return masters
}

// Valkey9 is Redis8 for a Valkey server of version 9.
func Valkey9(t testing.TB, args ...string) *Server {
	t.Helper()
	return redisOf(t, newest(t, "valkey-9"), args)
}

// MySQL9 starts a MySQL server of version 9.7 or newer for this test, as MariaDB
// does; MariaDBDSN leads to it too. Where there is none it is as with Redis8.
func MySQL9(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := startMySQL(t, t.TempDir(), newest(t, "mysql-9.7"), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedMySQL9 returns the address of a MySQL9 server that all tests of this test
// binary share: use tables of your own, and do not configure it.
func SharedMySQL9(t testing.TB) string {
	t.Helper()
	program := newest(t, "mysql-9.7")
	return share(t, "mysql9", func(tb fataler, dir string) (*Server, error) {
		return startMySQL(tb, dir, program, nil)
	})
}

// ErrUnreachable says that no suite that has the server could be reached.
var ErrUnreachable = errors.New("the server cannot be had here")

// StartMySQL9 starts the MySQL of MySQL9 in a directory, for a program that is no
// test. It stops with Stop; a failure of that panics.
func StartMySQL9(dir string, args ...string) (*Server, error) {
	program, unreachable, err := lookNewest(filepath.Join(cached(), "mysql-9.7"))
	if err != nil {
		return nil, err
	}
	if unreachable != "" {
		return nil, fmt.Errorf("%w: %s", ErrUnreachable, unreachable)
	}
	return startMySQL(panicker{}, dir, program, args)
}

// newest is the program that starts a server which scripts/newest-servers has
// unpacked into that directory. Without one the test is over.
func newest(t testing.TB, directory string) string {
	t.Helper()
	program, unreachable, err := lookNewest(filepath.Join(cached(), directory))
	if err != nil {
		t.Fatal(err)
	}
	if unreachable != "" {
		t.Skip(unreachable)
	}
	return program
}

// lookNewest returns the program of a server in its directory, or why no suite
// that has it could be reached when the script last tried.
func lookNewest(directory string) (program, unreachable string, err error) {
	program = filepath.Join(directory, "server")
	if exists(program) {
		return program, "", nil
	}
	why, err := os.ReadFile(directory + ".unreachable")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", fmt.Errorf("%s is needed by this test and is not there: run \"make servers\"", program)
	case err != nil:
		return "", "", err
	}
	return "", strings.TrimSpace(string(why)), nil
}

// startMySQL starts the server of a directory of scripts/newest-servers. It runs
// as ourselves, root or not: what is in that directory nobody else may read.
func startMySQL(tb fataler, dir, program string, args []string) (*Server, error) {
	own := filepath.Join(filepath.Dir(program), "usr")
	first := filepath.Join(dir, "first.sql")
	text := "CREATE DATABASE locks;\nCREATE USER root@'127.0.0.1';\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
	if err := os.WriteFile(first, []byte(text), 0o644); err != nil {
		return nil, err
	}
	// The paths that are built into the program are those of an installed one.
	small := func(data string) []string {
		return []string{"--no-defaults", "--user=root", "--basedir=" + own, "--lc-messages-dir=" + filepath.Join(own, "share", "mysql"),
			"--plugin-dir=" + filepath.Join(own, "lib", "mysql", "plugin"), "--secure-file-priv=", "--mysqlx=OFF", "--datadir=" + data,
			"--tmpdir=" + dir, "--innodb-redo-log-capacity=16M", "--innodb-buffer-pool-size=64M", "--innodb-flush-method=nosync"}
	}
	data := filepath.Join(dir, "data")
	var ourselves *account
	err := ourselves.copyOf("mysql9", data, func(data string) error {
		return ourselves.run(program, append(small(data), "--initialize-insecure", "--init-file="+first)...)
	})
	if err != nil {
		return nil, err
	}
	return startOnPort(tb, func(port int) (*Server, error) {
		given := append(small(data), "--bind-address=127.0.0.1", "--port="+strconv.Itoa(port), "--skip-name-resolve",
			"--socket=sock", "--pid-file=pid", "--max-connections=2000", "--skip-log-bin")
		s := &Server{
			Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
			tb:   tb, dir: dir, ready: mariaDBReady,
			command: func() *exec.Cmd { return exec.Command(program, append(given, args...)...) },
		}
		return s, s.start()
	})
}
