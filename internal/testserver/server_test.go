package testserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main{M: m}.Run()) }

// responds waits until a server answers. One try has so little time that a stall of the machine can use it up.
func responds(t *testing.T, addr string, ready func(addr string) error) {
	t.Helper()
	until := time.Now().Add(patience)
	for err := ready(addr); err != nil; err = ready(addr) {
		if time.Now().After(until) {
			t.Fatalf("no answer on %s within %v: %v", addr, patience, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestARedisServerAnswersStopsAndStartsAgainOnItsAddress(t *testing.T) {
	s := Redis(t)
	responds(t, s.Addr, redisReady)
	pid := s.PID
	s.Kill()
	if err := redisReady(s.Addr); err == nil {
		t.Fatal("a killed server answered")
	}
	s.Restart()
	responds(t, s.Addr, redisReady)
	if s.PID == pid {
		t.Errorf("the new server has the pid of the killed one, %d", s.PID)
	}
	s.Stop()
	if c, err := net.Dial("tcp", s.Addr); err == nil {
		c.Close()
		t.Error("a stopped server accepts connections")
	}
	s.Stop() // a second Stop is harmless
}

func TestAFrozenServerDoesNotAnswerUntilItIsThawed(t *testing.T) {
	s := Redis(t)
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.Freeze()
	c.Write([]byte("PING\r\n"))
	c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	b := make([]byte, 5)
	if n, err := c.Read(b); err == nil {
		t.Fatalf("a frozen server answered %q", b[:n])
	}
	s.Thaw()
	c.SetReadDeadline(time.Now().Add(patience))
	if n, err := c.Read(b); err != nil || !strings.HasPrefix("+PONG\r\n", string(b[:n])) {
		t.Fatalf("a thawed server answered %q, %v", b[:n], err)
	}
	s.Freeze() // the clean-up also stops a frozen server
}

func TestASharedServerIsOneForAllTests(t *testing.T) {
	a, b := SharedRedis(t), SharedRedis(t)
	if a != b {
		t.Errorf("two shared servers: %s and %s", a, b)
	}
	responds(t, a, redisReady)
}

func TestAServerThatEndsAtItsStartSaysWhy(t *testing.T) {
	_, err := startRedis(t, t.TempDir(), "", []string{"--no-such-option", "1"})
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("error %v does not name the wrong option", err)
	}
}

func TestAMissingServerIsReportedWithAdvice(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := startRedis(t, t.TempDir(), "", nil); err == nil || !strings.Contains(err.Error(), "make servers") {
		t.Errorf("error %v does not name make servers", err)
	}
}

func TestAClusterHasAllSlotsServed(t *testing.T) {
	for _, s := range RedisCluster(t, 3) {
		if info := s.redisDo("CLUSTER INFO"); !strings.Contains(info, "cluster_slots_ok:16384") {
			t.Errorf("%s reports %s", s.Addr, info)
		}
	}
}

func TestASentinelKnowsTheReplica(t *testing.T) {
	primary := Redis(t)
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica := Redis(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	_, port, _ = net.SplitHostPort(replica.Addr)
	if know := RedisCalmSentinels(t, primary, 1)[0].redisDo("SENTINEL REPLICAS primary"); !strings.Contains(know, port) {
		t.Errorf("Sentinel knows %q, not the replica on port %s", know, port)
	}
}

func TestAPostgresServerAnswersStopsAndStartsAgainOnItsAddress(t *testing.T) {
	s := Postgres(t)
	for _, end := range []func(){s.Kill, s.Stop} {
		responds(t, s.Addr, postgresReady)
		idle, err := net.Dial("tcp", s.Addr) // a connected client does not keep the server from ending
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
		pid := s.PID
		workers := children(pid)
		if len(workers) == 0 {
			t.Error("the PostgreSQL server has no children")
		}
		end()
		if err := postgresReady(s.Addr); err == nil {
			t.Fatal("a killed server answered")
		}
		s.Restart()
		if s.PID == pid {
			t.Errorf("the new server has the pid of the killed one, %d", s.PID)
		}
	}
}

func TestAPostgresReplicaIsPromoted(t *testing.T) {
	primary := Postgres(t)
	replica := PostgresReplica(t, primary)
	primary.Kill()
	replica.Promote()
	if exists(filepath.Join(replica.dir, "data", "standby.signal")) {
		t.Error("the server is still a replica after its promotion")
	}
}

func TestAPgBouncerAnswersForItsServer(t *testing.T) {
	server := Postgres(t)
	bouncer := PgBouncer(t, server.Addr, 2)
	responds(t, bouncer.Addr, postgresReady)
	bouncer.Restart()
	responds(t, bouncer.Addr, postgresReady)
}

func TestAMariaDBServerAnswersStopsAndStartsAgainOnItsAddress(t *testing.T) {
	s := MariaDB(t, "--max-connections=7")
	for _, end := range []func(){s.Kill, s.Stop} {
		responds(t, s.Addr, mariaDBReady)
		idle, err := net.Dial("tcp", s.Addr) // a connected client does not keep the server from ending
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
		pid := s.PID
		end()
		if err := mariaDBReady(s.Addr); err == nil {
			t.Fatal("a killed server answered")
		}
		s.Restart()
		if s.PID == pid {
			t.Errorf("the new server has the pid of the killed one, %d", s.PID)
		}
	}
	if a, b := SharedMariaDB(t), SharedMariaDB(t); a != b || a == s.Addr {
		t.Errorf("two shared servers: %s and %s, beside %s", a, b, s.Addr)
	}
}

func TestTheClockOfAServerIsSetAndItsDurationsAreNot(t *testing.T) {
	s := RedisWithClock(t)
	ahead := func() time.Duration {
		var sec, micro int64
		if _, err := fmt.Sscan(s.redisDo("TIME"), &sec, &micro); err != nil {
			t.Fatal(err)
		}
		return time.Until(time.UnixMicro(sec*1e6 + micro))
	}
	for _, want := range []time.Duration{time.Hour, -time.Minute, 0} {
		s.SetClock(want)
		if got := ahead(); (got - want).Abs() > 10*time.Second {
			t.Errorf("the clock was set %v ahead, but is %v ahead", want, got)
		}
	}
	s.SetClock(time.Hour)
	s.Restart()
	if got := ahead(); (got - time.Hour).Abs() > 10*time.Second {
		t.Errorf("after a restart the clock is %v ahead, want 1h", got)
	}
}
