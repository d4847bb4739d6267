package mysqlstore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

const crowd = "TestStore/promise/nobody_is_inside_with_a_writer_and_no_count_is_lost"

// mutants are one wrong thing each in the statements as they are sent.
var mutants = []struct{ name, test, old, new string }{
	{"an idle name is had by all", "TestDifferential", "total=0 AND @@", "total>=0 AND @@"},
	{"a name never used is had by all", "TestDifferential", "IF(total=0,", "IF(total>=0,"},
	{"a refusal tells a token", "TestDifferential", "newest+LAST_INSERT_ID(0)", "newest"},
	{"a token is the one before", "TestDifferential", "GREATEST(newest+1,", "GREATEST(newest+0,"},
	{"a hold is given back by any token", "TestDifferential", " AND token=", " AND 0<>"},
	{"an expired hold is renewed and given back", "TestDifferential", " AND expires>", " AND 0<"},
	{"a minimum hold is given back", "TestDifferential", " AND since+keep<=", " AND 0<="},
	{"more of a block is given back than there is", "TestDifferential", "<token+block-1 AND newest=token+block-1,", "<token+block+9,"},
	{"a hold is given back with all who wait", "TestDifferential", " AND total=1 AND id=", " AND total>=1 AND id="},
	{"a renewal moves the expiry back", "TestDifferential", "expires=GREATEST(expires,", "expires=GREATEST(0,"},
	{"a broken hold is renewed", "TestItWorksHoweverTheConnectionsAreSet/as_they_come", " AND broken IS NULL", ""},
	{"a renewal does not tell of an upgrade", "TestStore/promise/Upgrade_is_granted_when_the_last_reader_leaves_and_a_renewal_tells", " AND fence=0", ""},
	{"a renewal does not show the token", "TestDifferential", "flags=flags|2", "flags=flags|0"},
	{"the newest token used goes back", "TestItWorksHoweverTheConnectionsAreSet/as_they_come", "GREATEST(turn,", "GREATEST(0,"},
	{"all of many are renewed, whosever they are", "TestDifferential", " AND (name,id,token) IN (", " OR (name,id,token) IN ("},
	{"a row is written that somebody has written", crowd, " AND rev=", " AND 0<>"},
	{"what does not commit is written", "TestAConnectionWithoutAutocommitIsRefusedAndNothingIsWritten", "@@autocommit=1 ", "1=1 "},
	{"a renewal of many waits for a locked row", lockedRow + "/shared", "innodb_lock_wait_timeout=0", "innodb_lock_wait_timeout=50"},
	// From here on they need MySQL.
	{"a renewal of many waits for a locked row there", lockedRow + onMySQL, " FOR UPDATE SKIP LOCKED", ""},
	{"the rows that are free are not looked for first", lockedRow + onMySQL, " LIMIT 40 FOR UPDATE", " FOR UPDATE"},
	{"the rows that are free are not found by their key", lockedRow + onMySQL, "ON name=n", "ON name=n OR 1=1"},
	{"a deletion of many waits for a locked row there", "TestALockedRowKeepsNobodyFromNamesThatAreDeleted" + onMySQL, " FOR UPDATE SKIP LOCKED", ""},
}

const (
	lockedRow = "TestALockedRowKeepsNoOtherHoldFromBeingRenewed"
	onMySQL   = "/MySQL_9.7"
)

// An editing is a connector whose connections send something else than what
// they are told.
type editing struct {
	driver.Connector
	old, new string
	met      atomic.Bool
}

// edited is the connector of the mutant that this process is to be, or c.
func edited(t testing.TB, c driver.Connector) driver.Connector {
	i, ok := mutant.Here()
	if !ok {
		return c
	}
	e := &editing{Connector: c, old: mutants[i].old, new: mutants[i].new}
	t.Cleanup(func() {
		if e.met.Load() {
			fmt.Println("a statement was edited")
		}
	})
	return e
}

func (e *editing) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := e.Connector.Connect(ctx)
	return &editedConn{c, e}, err
}

func (e *editing) edit(s string) string {
	if strings.Contains(s, e.old) {
		e.met.Store(true)
	}
	return strings.ReplaceAll(s, e.old, e.new)
}

type editedConn struct {
	driver.Conn
	e *editing
}

func (c *editedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, c.e.edit(query), args)
}

func (c *editedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, c.e.edit(query), args)
}

// Each statement with one thing wrong is found out.
func TestTheTestsCatchEachMutantOfTheStatements(t *testing.T) {
	t.Parallel()
	there := false
	t.Run("those of MySQL", func(t *testing.T) {
		testserver.SharedMySQL9(t) // else it is skipped, and so are they
		there = true
	})
	var all []mutant.Broken
	for _, m := range mutants {
		if strings.HasSuffix(m.test, onMySQL) && !there {
			break
		}
		all = append(all, mutant.Broken{Name: m.name, Pkg: "mysqlstore", Test: m.test})
	}
	mutant.CatchHere(t, all, func(b mutant.Broken, output string) string {
		switch {
		case !strings.Contains(output, "a statement was edited"):
			return "was sent no statement that it changes"
		case b.Test == "TestDifferential" && !strings.Contains(output, "the model "):
			return "fails, but not as it differs from the model"
		}
		return ""
	}, "HOLDFAST_TEST_MYSQL="+sharedDSN(t), "HOLDFAST_TEST_STEPS=20000", "HOLDFAST_TEST_PATIENCE=5s")
}
