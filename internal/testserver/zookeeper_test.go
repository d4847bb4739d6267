package testserver

import (
	"strings"
	"testing"
)

func TestAZooKeeperStartsAndAnswersAgainAfterARestart(t *testing.T) {
	t.Parallel()
	s := ZooKeeper(t)
	responds(t, s.Addr, func(addr string) error {
		said, err := zooKeeperSays(addr)
		if err == nil && !strings.Contains(said, "Mode: standalone") {
			t.Fatalf("the server reports %q", said)
		}
		return err
	})
	s.Kill()
	if _, err := zooKeeperSays(s.Addr); err == nil {
		t.Fatal("a killed server answered")
	}
	s.Restart()
	responds(t, s.Addr, zooKeeperReady)
}

func TestAnEnsembleOfZooKeepersElectsANewLeader(t *testing.T) {
	t.Parallel()
	all := ZooKeeperEnsemble(t, 3)
	first := ZooKeeperLeader(t, all)
	all[first].Kill()
	if next := ZooKeeperLeader(t, all); next == first {
		t.Errorf("server %d is the leader, although it was killed", next)
	}
}
