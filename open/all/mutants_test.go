package all_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
)

// A URL that would open a store that no other process uses is refused. Without that check a test fails.
func TestTheTestsCatchEachMutantOfAURL(t *testing.T) {
	t.Parallel()
	const (
		noHost   = "TestAURLWithoutAHostIsRefused"
		relative = "TestARelativeDirectoryIsRefused"
	)
	var all []mutant.Broken
	for _, m := range []struct {
		name, test, mark string
		do               mutant.Op
	}{
		{"a relative directory is accepted", relative, "open-relative-directory", mutant.Line("case false:")},
		{"a port may be any number", "TestAWrongURLIsInvalidAndNotRepeated", "open-port-of-any-size", mutant.Cond("n == 0 && err != nil")},
		{"a Redis URL need name no host", noHost, "redis-url-names-a-host", mutant.Cond(`WAS && u.Hostname() != ""`)},
		{"a host of several of Redis may be empty", noHost, "redis-url-names-each-host", mutant.Cond("err != nil || u.User != nil")},
		{"a NATS URL need not be one of a server", noHost, "nats-url-has-a-host", mutant.Stmt("if !ok {\nrest = \"127.0.0.1\"\n}")},
		{"a host of NATS may be empty", noHost, "nats-url-names-each-host", mutant.Cond("WAS && false")},
		{"a host of MongoDB may be empty", noHost, "mongo-url-names-each-host", mutant.Cond("WAS && false")},
		{"a host of etcd may be empty", noHost, "etcd-url-names-each-host", mutant.Cond("WAS && false")},
		{"a host of ZooKeeper may be empty", noHost, "zk-url-names-each-host", mutant.Cond("WAS && false")},
	} {
		all = append(all, mutant.Broken{Name: m.name, Pkg: "open/all", Test: m.test, Edits: []mutant.Edit{mutant.At(m.mark, m.do)}})
	}
	mutant.Catch(t, all)
}
