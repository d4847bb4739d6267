package testserver

import (
	"strings"
	"testing"
)

func TestAZooKeeperStartsAndAnswersAgainAfterARestart(t *testing.T) {
	t.Parallel()
	s := ZooKeeper(t)
	if said, err := zooKeeperSays(s.Addr); err != nil || !strings.Contains(said, "Mode: standalone") {
		t.Fatalf("it says %q, %v", said, err)
	}
	s.Kill()
	if _, err := zooKeeperSays(s.Addr); err == nil {
		t.Fatal("it answers, and was killed")
	}
	s.Restart()
	if _, err := zooKeeperSays(s.Addr); err != nil {
		t.Fatal(err)
	}
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
