package testserver

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// Redis8 is Redis for a server of version 8, whatever the other tests run on. The
// test is skipped where no suite of Debian's that has one could be reached, and fails
// where it is missing for any other reason.
func Redis8(t testing.TB, args ...string) *Server {
	t.Helper()
	return redisOf(t, named(t, "redis-8"), args)
}

// Redis8Cluster is RedisCluster of servers as Redis8 starts.
func Redis8Cluster(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	masters, _ := redisCluster(t, named(t, "redis-8"), n, false, args...)
	return masters
}

// Redis7 is Redis for the server that is installed, of version 7.0 on Debian 12.
func Redis7(t testing.TB, args ...string) *Server {
	t.Helper()
	return redisOf(t, named(t, "redis"), args)
}

// Valkey9 is Redis8 for a Valkey server of version 9.
func Valkey9(t testing.TB, args ...string) *Server {
	t.Helper()
	return redisOf(t, named(t, "valkey-9"), args)
}

// MySQL9 starts a MySQL server of version 9.7 or newer for this test, as MariaDB
// does; MariaDBDSN leads to it too. Where there is none it is as with Redis8.
func MySQL9(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := startMySQL(t, t.TempDir(), named(t, "mysql-9.7"), args)
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
	program := named(t, "mysql-9.7")
	return share(t, "mysql9", func(tb fataler, dir string) (*Server, error) {
		return startMySQL(tb, dir, program, nil)
	})
}

// StartMySQL9 starts the MySQL of MySQL9 in a directory, for a program that is no
// test. It stops with Stop; a failure of that panics.
func StartMySQL9(dir string, args ...string) (*Server, error) {
	l := listed("mysql-9.7")
	program, err := l.path()
	if err != nil {
		return nil, err
	}
	return startMySQL(panicker{}, dir, program, args)
}

// startMySQL starts the server whose program it is, which scripts/servers has unpacked, as ourselves, root or not.
func startMySQL(tb fataler, dir, program string, args []string) (*Server, error) {
	own := filepath.Dir(filepath.Dir(program))
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
		if err := ourselves.run(program, append(small(data), "--initialize-insecure", "--init-file="+first)...); err != nil {
			return err
		}
		return os.Remove(filepath.Join(data, "auto.cnf")) // its server_uuid: each that is copied from this is another server
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
