package testserver

import (
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
					t.Errorf("the server reports %s", info)
				}
			}
			s.redisDo("SET a 1")
			s.Kill()
			s.Restart()
			if got := s.redisDo("GET a"); !strings.HasPrefix(got, "1") {
				t.Errorf("after a restart GET returns %q", got)
			}
		})
	}
}
