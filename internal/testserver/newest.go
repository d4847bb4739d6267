package testserver

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// Redis8 is Redis with a server of version 8, whatever the other tests run on. The test is
// skipped if no Debian suite that has one could be reached, and fails if it is missing for any
// other reason.
func Redis8(t testing.TB, args ...string) *Server {
	t.Helper()
	return redisOf(t, named(t, "redis-8"), args)
}

// Redis8Cluster is RedisCluster with the servers of Redis8.
func Redis8Cluster(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	masters, _ := redisCluster(t, named(t, "redis-8"), n, false, args...)
	return masters
}

// Redis7 is Redis with the installed server, which is version 7.0 on Debian 12.
func Redis7(t testing.TB, args ...string) *Server {
	t.Helper()
	return redisOf(t, named(t, "redis"), args)
}

// Valkey9 is Redis8 with a Valkey server of version 9.
func Valkey9(t testing.TB, args ...string) *Server {
	t.Helper()
	return redisOf(t, named(t, "valkey-9"), args)
}

// MySQL9 starts a MySQL server of version 9.7 or newer for this test, like MariaDB; MariaDBDSN
// works for it too. If there is none, the test is skipped or fails as with Redis8.
func MySQL9(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := startMySQL(t, t.TempDir(), named(t, "mysql-9.7"), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SharedMySQL9 returns the address of a MySQL9 server that all tests of this test binary share.
// Use tables of your own, and do not configure the server.
func SharedMySQL9(t testing.TB) string {
	t.Helper()
	program := named(t, "mysql-9.7")
	return share(t, "mysql9", func(tb fataler, dir string) (*Server, error) {
		return startMySQL(tb, dir, program, nil)
	})
}

// StartMySQL9 starts the server of MySQL9 in a directory, for a program that is not a test.
// Stop ends it and panics if that fails.
func StartMySQL9(dir string, args ...string) (*Server, error) {
	l := listed("mysql-9.7")
	program, err := l.path()
	if err != nil {
		return nil, err
	}
	return startMySQL(panicker{}, dir, program, args)
}

// startMySQL starts the server program that scripts/servers has unpacked, as our own user, even if that is root.
func startMySQL(tb fataler, dir, program string, args []string) (*Server, error) {
	own := filepath.Dir(filepath.Dir(program))
	first := filepath.Join(dir, "first.sql")
	text := "CREATE DATABASE locks;\nCREATE USER root@'127.0.0.1';\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
	if err := os.WriteFile(first, []byte(text), 0o644); err != nil {
		return nil, err
	}
	// The paths compiled into the program are those of an installed server.
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
		return os.Remove(filepath.Join(data, "auto.cnf")) // it has the server_uuid, which must differ in each copy
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
