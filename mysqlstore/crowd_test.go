package mysqlstore

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/internal/crowdtest"
)

// worker is a process of a crowd; at holds the DSN and the table.
func worker(at string) error {
	dsn, table, _ := strings.Cut(at, " ")
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return err
	}
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	s, err := New(db, &Options{Table: table})
	if err != nil {
		return err
	}
	return crowdtest.Work(s)
}

func TestOneOfManyProcessesHoldsAtATimeAndTokensGrow(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	mustHold(t, s, mutex("the table exists"))
	crowdtest.Run(t, sharedDSN(t)+" "+s.b.o.Table)
}
