package mysqlstore_test

import (
	"database/sql"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

func TestAMySQLServerAnswersStopsAndStartsAgainOnItsAddress(t *testing.T) {
	s := testserver.MySQL9(t, "--max-connections=7")
	for _, end := range []func(){s.Kill, s.Stop} {
		db, err := sql.Open("mysql", testserver.MariaDBDSN(s.Addr))
		if err != nil {
			t.Fatal(err)
		}
		var version, limit, timeout string
		if err := db.QueryRow("SELECT @@version, @@max_connections, @@innodb_lock_wait_timeout").Scan(&version, &limit, &timeout); err != nil {
			t.Fatal(err)
		}
		db.Close()
		if !strings.HasPrefix(version, "9.") || limit != "7" || timeout != "50" {
			t.Errorf("the server reports %s, %s, %s", version, limit, timeout)
		}
		idle, err := net.Dial("tcp", s.Addr) // a client that stays connected does not stop the server from ending
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
		pid := s.PID
		end()
		if c, err := net.Dial("tcp", s.Addr); err == nil {
			c.Close()
			t.Fatal("a stopped server answered")
		}
		s.Restart()
		if s.PID == pid {
			t.Errorf("got pid %d of the stopped server", s.PID)
		}
	}
	if a, b := testserver.SharedMySQL9(t), testserver.SharedMySQL9(t); a != b || a == s.Addr {
		t.Errorf("got two shared servers, %s and %s, beside %s", a, b, s.Addr)
	}
}
