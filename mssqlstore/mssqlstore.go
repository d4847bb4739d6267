// Package mssqlstore keeps locks in two tables of SQL Server or Azure SQL, by way of
// github.com/microsoft/go-mssqldb.
//
// It has been run on no SQL Server yet: none can be installed where it is developed. What always runs is the tests that
// need no server. To run all of them on a server of yours, set HOLDFAST_TEST_SQLSERVER to its URL. Decision 50 in
// docs/decisions lists what was taken from the manual, and from where.
//
// # Stored form
//
// A row a name in one table, [dbo].[holdfast_locks] unless [Options] say otherwise, and a row a session in another, which
// has the same name and "_sessions" behind it. [Schema] is the statements that make them. A name is VARBINARY, so no
// collation has a say in it. A byte 1 is behind it, as SQL Server takes values for equal that differ in zero bytes at
// the end. The record of a name has the form of package store/record. Each write gives it another
// random number (rev). Who comes to wait while somebody else writes adds a note to the column inbox (in hexadecimal), and
// that changes no number; the next who writes takes the notes in. A session has its expiry by the server's clock, in
// microseconds since 1970, and how often its owner was called. The column form is the version of it all, 1; a row of a
// newer one is left alone.
//
// A name's row is deleted about a day after its last hold ended, and a session's after its end, in small steps beside
// the locking.
//
// # Guarantees
//
// The rule: order, minimum hold, lock delay, slots, upgrades, blocks of tokens. Time is the server's (SYSUTCDATETIME).
// Tokens of a name strictly increase as long as its row is there, and beyond that as long as the clock of the server is
// not behind the newest token.
//
// Every statement is a transaction of its own, and writes at most one row, if its number is the one that was read. No hint
// and no application lock has a part in it. A request sets what it depends on by itself: READ COMMITTED,
// XACT_ABORT, no implicit transactions, no ROWCOUNT, a LOCK_TIMEOUT of three seconds. Its text is given to sp_executesql,
// so a connection of yours has its own settings again afterwards. On a connection with an open transaction it
// is refused (store.ErrUnsupported). It is right under READ COMMITTED with locks and with row versions
// (READ_COMMITTED_SNAPSHOT): an UPDATE reads the row that it has locked under both. With the first, who reads a name
// waits for whoever has its row locked; with the second nobody who reads waits. Azure SQL has the second by default.
//
// What the server says it did not apply (1205, 1222, 3960, 2627) is a lost race, and goes on as long as the context has. What was not
// answered is indeterminate. When the context of a call ends the call returns; the driver cancels the statement beside it, and drops
// a connection whose server has not confirmed that for five seconds.
//
// Waiters poll, as nothing wakes them: who is next in growing pauses up to 800 ms, those far behind more seldom. A poll
// reads; it writes only that a session has ended whose time was over.
//
// A fail-over to a replica with asynchronous commit, and a crash under DELAYED_DURABILITY, can lose a grant: it can be given twice until
// the TTL of the first is over. Check the token where that matters (package guard).
//
// # Requirements
//
// SQL Server 2016 or newer, or Azure SQL, and its primary. Each table is an ordinary one.
//
// [Open] has connections of its own. The driver does not encrypt, but for the log-in, and checks no certificate, unless the
// URL has encrypt=true. The driver heeds no context while it logs in: Open bounds that by 15 seconds, and a pool given to [New] is bounded by
// "connection timeout" of its URL, which is unset by default. It sends keep-alives each 30 seconds. By default it repeats a request
// that could not be sent, on another connection; Open switches that off. Between two uses a pool has the server reset the connection (RESETCONNECTION), which costs no round trip and leaves
// the isolation level as it was.
//
// # Rights
//
// These grants on both tables suffice:
//
//	SELECT, INSERT, UPDATE   to lock
//	DELETE                   to delete rows that are used no more; without, they stay
//
// To make the tables at first use takes CREATE TABLE in the database and ALTER on the schema; without, have somebody
// run Schema.
package mssqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// DefaultTable and DefaultSchema are where the tables are unless Options say otherwise.
const (
	DefaultTable  = "holdfast_locks"
	DefaultSchema = "dbo"
)

// The range of TTLs, minimum holds and lock delays.
const (
	minTTL = 100 * time.Millisecond
	maxTTL = 365 * 24 * time.Hour
)

// Options of a Store. Nil, and zero fields, mean the defaults. A name is made of letters, digits
// and underscores of ASCII, and does not begin with a digit.
type Options struct {
	// Schema has the tables; DefaultSchema if empty, whatever that of the user is. At most 128 bytes.
	Schema string
	// Table keeps the locks, and another with "_sessions" behind its name the sessions;
	// DefaultTable if empty. Stores with different tables have nothing to do with each
	// other. At most 119 bytes.
	Table string
	// Dial makes the connections of Open; nil: those of package net. New ignores it.
	Dial Dial
}

// A Store keeps locks in two tables. Its methods are safe for concurrent use.
type Store struct {
	*record.Store
	b *backend
}

// A backend is a record.Backend in two tables.
type backend struct {
	db        *sql.DB
	own       *connector // of connections that we have opened; nil: they are the caller's
	address   string     // for people
	o         Options
	texts     map[string]string // of the files in sql
	retention time.Duration
	clock     func() int64 // nil but in tests: the server's clock

	checked *row.Once // the tables are there and are ours
	sweeps  row.Sweeps

	ctx   context.Context // of the sweeping, ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup
	sent  sync.WaitGroup // requests, also those that nobody waits for any more
}

var _ record.Backend = (*backend)(nil)

// New returns a Store on the database, which stays the caller's: it is never closed here, and must be open for as long
// as the Store is used. Its driver has to be github.com/microsoft/go-mssqldb. New does no I/O: the tables
// are looked at, or made, by the first operation. The error matches store.ErrInvalid.
func New(db *sql.DB, o *Options) (*Store, error) {
	b, err := newBackend(db, o)
	if err != nil {
		return nil, err
	}
	return storeOf(b), nil
}

func storeOf(b *backend) *Store { return &Store{record.New(b), b} }

func newBackend(db *sql.DB, o *Options) (*backend, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: the database is nil", store.ErrInvalid)
	}
	all, err := o.filled()
	b := &backend{db: db, o: all, texts: texts(&all), retention: store.TokenRetention, checked: row.NewOnce()}
	b.address = "SQL Server, table " + all.quoted(&tables[0])
	b.ctx, b.end = context.WithCancel(context.Background())
	return b, err
}

// Describe implements [record.Backend].
func (b *backend) Describe() store.Description {
	return store.Description{
		Store:  b.address,
		Tokens: "when the name's row is lost and the clock of the server that answers is behind the newest token",
		Loses: "a fail-over to a replica that commits asynchronously can lose the newest grants, and so can a crash of a server with DELAYED_DURABILITY; " +
			"then two may hold a name until the TTL of the first is over",
		Forgets: []store.Accident{store.AccidentWipe, store.AccidentFailOver, store.AccidentClockStep},
		Crash:   store.CrashTTL,
	}
}

// Close implements [record.Backend]. The database of New stays open, and what its driver still cancels there ends by itself.
func (b *backend) Close() error {
	b.end()
	b.tasks.Wait()
	if b.own == nil {
		return nil
	}
	b.own.cut() // a server that is frozen confirms nothing
	b.sent.Wait()
	return b.db.Close()
}
