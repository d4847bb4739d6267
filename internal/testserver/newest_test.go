package testserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheNewestRedisAndValkeyAnswerAndAreFollowed(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *Server{"redis_version:8": Redis8, "valkey_version:9": Valkey9} {
		t.Run(name, func(t *testing.T) {
			s := start(t, "--appendonly", "yes", "--repl-diskless-sync-delay", "0")
			replica := RedisReplica(t, s)
			for _, s := range []*Server{s, replica} {
				if info := s.redisDo("INFO server"); !strings.Contains(info, name) {
					t.Errorf("it says of itself %s", info)
				}
			}
			s.redisDo("SET a 1")
			s.Kill()
			s.Restart()
			if got := s.redisDo("GET a"); !strings.HasPrefix(got, "1") {
				t.Errorf("after a restart it has %q", got)
			}
		})
	}
}

// What no suite has is a skip. What was never tried is a failure, and says what
// to do.
func TestAMissingNewestServerIsNotTakenForAnUnreachableSuite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "redis-8")
	if program, why, err := lookNewest(dir); err == nil || !strings.Contains(err.Error(), "make servers") {
		t.Errorf("nothing is there: %q, %q, %v", program, why, err)
	}
	reason := "the suite with Redis 8 cannot be reached: sid: no route"
	if err := os.WriteFile(dir+".unreachable", []byte(reason+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if program, why, err := lookNewest(dir); err != nil || why != reason {
		t.Errorf("the script could not reach it: %q, %q, %v", program, why, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "server"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if program, why, err := lookNewest(dir); err != nil || why != "" || program != filepath.Join(dir, "server") {
		t.Errorf("it is there: %q, %q, %v", program, why, err)
	}
}
