package mssqlstore

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/crowdtest"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

// worker is a process of a crowd; at holds the URL and the table.
func worker(at string) error {
	url, table, _ := strings.Cut(at, " ")
	s, err := Open(url, &Options{Table: table})
	if err != nil {
		return err
	}
	return crowdtest.Work(s)
}

func TestOneOfManyProcessesHoldsAtATimeAndTokensGrow(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	mustHold(t, s, mutex("the table exists"))
	crowdtest.Run(t, testserver.SQLServer(t)+" "+s.b.o.Table)
}
