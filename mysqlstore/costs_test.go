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

// crowdWrites is the most statements per lock of a crowd that write a name or leave a note for it: try, join, be taken in, release, and some
// lost races. Polls and renewals add to that: the slower the machine, the more.
const crowdWrites = 8

// Many processes come at once for one name, each with connections of its own. None of their statements waits for the name's row.
func TestACrowdCostsFewRequestsALock(t *testing.T) {
	o, counts, n := apart(), &recordtest.Counts{}, recordtest.CrowdSize(30)
	var writes atomic.Int64
	recordtest.Crowd(t, n, counts, func(t *testing.T) store.Store {
		return storeOn(t, seen(t, func(query string, err error) {
			kind := kindOf(query, o)
			if kind == "swap" || kind == "join" {
				writes.Add(1)
			}
			if is(err, lockWaitTimeout) {
				kind += " locked"
			}
			counts.Add(kind)
		}), o)
	})
	if each := float64(writes.Load()) / float64(n); each > crowdWrites {
		t.Errorf("got %.1f statements per lock that write the name or a note, want at most %d", each, crowdWrites)
	}
}

// To read the columns of the tables from information_schema costs a server more than four locks.
func TestAProcessThatComesReadsNoInformationSchema(t *testing.T) {
	t.Parallel()
	o := apart()
	first := storeOn(t, dbOn(t, sharedDSN(t)), o)
	defer first.Close()
	mustHold(t, first, mutex("of the first"))
	var columns, statements atomic.Int64
	s := storeOn(t, seen(t, func(query string, _ error) {
		statements.Add(1)
		if strings.Contains(query, "information_schema.COLUMNS") {
			columns.Add(1)
		}
	}), o)
	defer s.Close()
	mustHold(t, s, mutex("n"))
	found := s.Check(t.Context())
	if last := found[len(found)-1]; last.About != "table" || last.Level() != store.LevelOK {
		t.Errorf("got finding %+v", last)
	}
	if columns.Load() != 0 || statements.Load() == 0 {
		t.Errorf("got %d of %d statements that read information_schema, want none", columns.Load(), statements.Load())
	}
	if s.Check(t.Context()); columns.Load() != 1 {
		t.Errorf("the second check read information_schema %d times, want once", columns.Load())
	}
}

// seen returns connections to the server that tests share. It reports each statement, with the error if it is not a query.
func seen(t *testing.T, report func(query string, err error)) *sql.DB {
	t.Helper()
	c, err := mysql.ParseDSN(sharedDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(seenConnector{connector, report})
	t.Cleanup(func() { db.Close() })
	return db
}

type seenConnector struct {
	driver.Connector
	report func(query string, err error)
}

func (c seenConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return seenConn{conn.(mysqlConn), c.report}, nil
}

// mysqlConn is the part of the driver's connection that the store uses.
type mysqlConn interface {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type seenConn struct {
	mysqlConn
	report func(query string, err error)
}

func (c seenConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.mysqlConn.ExecContext(ctx, query, args)
	c.report(query, err)
	return result, err
}

func (c seenConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.report(query, nil)
	return c.mysqlConn.QueryContext(ctx, query, args)
}

// kindOf classifies a statement by its verb and its table.
func kindOf(query string, o *Options) string {
	kind, _, _ := strings.Cut(strings.Trim(query, "("), " ")
	table := func(suffix string) bool { return strings.Contains(query, "`"+o.Table+suffix+"`") }
	switch {
	case strings.HasPrefix(query, hurries):
		return "swap"
	case kind == "INSERT" && table("_notes") && !strings.Contains(query, "1=0"):
		return "join"
	case kind == "SELECT" && table("_notes"):
		return "load"
	case table("_sessions"):
		return kind + " session"
	}
	return kind
}
