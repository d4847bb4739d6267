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
			t.Fatalf("it says %q", said)
		}
		return err
	})
	s.Kill()
	if _, err := zooKeeperSays(s.Addr); err == nil {
		t.Fatal("it answers, and was killed")
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
		t.Errorf("server %d leads, and was killed", next)
	}
}
