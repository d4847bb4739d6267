package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// RedisWithClock starts a Redis server for this test, like Redis, with a clock that SetClock
// sets. It always starts the installed server: the library that sets the clock needs the
// system's libc, which an unpacked server does not use.
func RedisWithClock(t testing.TB, args ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	program, err := find("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	s, err := startOnPort(t, func(port int) (*Server, error) {
		s, err := newRedis(t, dir, program, port, append(ownRedis(dir, port), args...)...)
		if err == nil {
			err = s.fakeClock()
		}
		if err != nil {
			return nil, err
		}
		return s, s.start()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// fakeClock makes the server start with a wall clock that SetClock sets, if the server reads
// the time from libc. Its monotonic clock stays real.
func (s *Server) fakeClock() error {
	const pattern = "/usr/lib/*/faketime/libfaketimeMT.so.1"
	all, _ := filepath.Glob(pattern)
	if len(all) == 0 {
		return fmt.Errorf("libfaketime is needed by this test and is not installed (%s): run \"make servers\"", pattern)
	}
	s.clock = filepath.Join(s.dir, "clock")
	real := s.command
	s.command = func() *exec.Cmd {
		cmd := real()
		// libc comes second for its malloc: Redis is built with jemalloc, whose malloc reads
		// the clock before libfaketime is ready.
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+all[0]+":libc.so.6", "FAKETIME_TIMESTAMP_FILE="+s.clock,
			"FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1")
		return cmd
	}
	return s.writeClock(0)
}

// SetClock sets the wall clock of a server started with a fake clock to be this far ahead of
// the real one; a negative value sets it behind.
func (s *Server) SetClock(ahead time.Duration) {
	s.tb.Helper()
	if s.clock == "" {
		s.tb.Fatalf("server %d was not started with a clock that can be set", s.PID)
	}
	if err := s.writeClock(ahead); err != nil {
		s.tb.Fatalf("set the clock of server %d: %v", s.PID, err)
	}
}

func (s *Server) writeClock(ahead time.Duration) error {
	next := s.clock + ".next" // the server reads it at any time, so it must be complete
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+.6f\n", ahead.Seconds()), 0o644); err != nil {
		return err
	}
	return os.Rename(next, s.clock)
}
