package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/recordtest"
)

// crowdWrites is the most statements that write a name, or leave a note for it, for each lock of a crowd: try, join, be taken in, give back, and some
// lost races. Polls and renewals come to that: the more, the slower the machine.
const crowdWrites = 8

// Many processes come at once for one name, each with connections of its own. No statement of theirs waits for the name's row.
func TestACrowdCostsFewRequestsALock(t *testing.T) {
	c, err := mysql.ParseDSN(sharedDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	o, counts, n := apart(), &recordtest.Counts{}, recordtest.CrowdSize(30)
	var writes atomic.Int64
	recordtest.Crowd(t, n, counts, func(t *testing.T) store.Store {
		db := sql.OpenDB(countedConnector{connector, counts, &writes, o})
		t.Cleanup(func() { db.Close() })
		return storeOn(t, db, o)
	})
	if each := float64(writes.Load()) / float64(n); each > crowdWrites {
		t.Errorf("%.1f statements a lock write the name or a note, want at most %d", each, crowdWrites)
	}
}

type countedConnector struct {
	driver.Connector
	counts *recordtest.Counts
	writes *atomic.Int64
	o      *Options
}

func (c countedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countedConn{conn.(mysqlConn), c}, nil
}

// A mysqlConn is what the driver's connections are that is used.
type mysqlConn interface {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type countedConn struct {
	mysqlConn
	c countedConnector
}

func (c countedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.mysqlConn.ExecContext(ctx, query, args)
	c.c.add(query, err)
	return result, err
}

func (c countedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.c.add(query, nil)
	return c.mysqlConn.QueryContext(ctx, query, args)
}

// add counts a statement: by its verb and the table that it is about, and whether that was locked.
func (c countedConnector) add(query string, err error) {
	kind, _, _ := strings.Cut(strings.Trim(query, "("), " ")
	table := func(suffix string) bool { return strings.Contains(query, "`"+c.o.Table+suffix+"`") }
	switch {
	case strings.HasPrefix(query, hurries):
		kind = "swap"
	case kind == "INSERT" && table("_notes") && !strings.Contains(query, "1=0"):
		kind = "join"
	case kind == "SELECT" && table("_notes"):
		kind = "load"
	case table("_sessions"):
		kind += " session"
	}
	if kind == "swap" || kind == "join" {
		c.writes.Add(1)
	}
	if is(err, lockWaitTimeout) {
		kind += " locked"
	}
	c.counts.Add(kind)
}
