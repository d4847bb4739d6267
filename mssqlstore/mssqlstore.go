// Package mssqlstore keeps locks in two tables of SQL Server or Azure SQL, using
// github.com/microsoft/go-mssqldb.
//
// It has not been run against a SQL Server yet: none can be installed where it is developed. To run all tests on
// yours, set HOLDFAST_TEST_SQLSERVER to its URL. Decision 50 in docs/decisions lists what comes from the manual only.
//
// # Stored form
//
// One table has a row for each name: [dbo].[holdfast_locks] unless [Options] say otherwise. Another, with the suffix
// "_sessions", has a row for each session. [Schema] returns the statements that create them. A name is VARBINARY, so
// collations do not matter; a byte 1 follows it, because SQL Server ignores zero bytes at the end of a value. The record
// of a name has the format of package [github.com/holdfast-go/holdfast/store/record]. Each write gives it a new random
// number (rev). A waiter adds a note to the column inbox, in hexadecimal, which does not change the number; the next
// write takes the notes in. A session has its expiry by the server's clock, in microseconds since 1970, and a counter of
// calls. The column form is the version of the whole format, 1; rows with a newer one are left alone. A name's row is
// deleted about a day after its last hold ended, a session's after its end.
//
// # Guarantees
//
// All of package [github.com/holdfast-go/holdfast/store], by the server's clock (SYSUTCDATETIME). TTLs are from 100 ms
// to 365 days. The clock may advance in steps of up to 16 ms, so the owner of a session assumes its TTL less one step.
// Tokens of a name strictly increase while its row exists, and after that unless the server's clock is behind the newest
// token.
//
// Every statement is its own transaction and writes at most one row, if that row still has the number that was read. It
// uses no hints and no application locks. Each request sets what it depends on: READ COMMITTED, XACT_ABORT, no implicit
// transactions, no ROWCOUNT, a LOCK_TIMEOUT of three seconds. It is sent by sp_executesql, so your connections keep
// their own settings. A connection with an open transaction is refused (store.ErrUnsupported). READ_COMMITTED_SNAPSHOT
// may be on or off; if it is off, a read waits for any transaction that has the row locked. A locked row delays only its
// name. If the row of a session stays locked, everything in the session moves to another one before it ends.
//
// Errors 1205, 1222, 2627 and 3960 of a write are lost races. A call returns when its context ends; operations without an
// answer are indeterminate. Waiters poll: the first one with growing pauses up to 800 ms, those far behind less often.
//
// A fail-over to a replica with asynchronous commit, or a crash under DELAYED_DURABILITY, can lose a grant. Then two can
// hold the name until the TTL of the first has passed. With its next renewal a process notices the new server, or the
// restart, and then rewrites each of its holds or finds it lost. Released entries that have come back expire some TTLs
// later. Check the token where that matters (package guard).
//
// # Requirements
//
// SQL Server 2016 or newer, or Azure SQL: the primary, and ordinary tables. Without encrypt=true in the URL the driver
// encrypts only the log-in, and checks no certificate. The driver waits up to five seconds for the server to confirm a
// canceled request, and without limit for the first answers of a log-in. A call does not wait for that, but its
// connection does. [Open] sets a "connection timeout" of 15 seconds; set one for a pool that you give to [New].
//
// # Rights
//
// These grants on both tables suffice:
//
//	SELECT, INSERT, UPDATE   to lock
//	DELETE                   to delete old rows; without it they stay
//
// To make the tables at first use takes CREATE TABLE in the database and ALTER on the schema; without these, have an
// administrator run Schema.
package mssqlstore

import (
	"database/sql"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// DefaultTable and DefaultSchema name the tables unless Options say otherwise.
const (
	DefaultTable  = "holdfast_locks"
	DefaultSchema = "dbo"
)

// Options of a Store. Nil, and zero fields, mean the defaults. Names consist of ASCII letters,
// digits and underscores, and do not begin with a digit.
type Options struct {
	// Schema has the tables; DefaultSchema if empty, even if the user's default schema is another. At most 128 bytes.
	Schema string
	// Table keeps the locks; DefaultTable if empty. Another table, with the suffix "_sessions", keeps the sessions.
	// Stores with different tables are independent. At most 119 bytes.
	Table string
	// Dial makes the connections of Open; nil means package net. New ignores it.
	Dial Dial
}

// filled returns the options with their defaults.
func (o *Options) filled() (all Options, err error) {
	if o != nil {
		all = *o
	}
	if all.Schema == "" {
		all.Schema = DefaultSchema
	}
	if all.Table == "" {
		all.Table = DefaultTable
	}
	if err = row.CheckName("the schema of a SQL Server store", all.Schema, 128); err == nil {
		err = row.CheckName("the table of a SQL Server store", all.Table, 119)
	}
	return all, err
}

// locks and sessions return the tables, in SQL.
func (o *Options) locks() string    { return "[" + o.Schema + "].[" + o.Table + "]" }
func (o *Options) sessions() string { return "[" + o.Schema + "].[" + o.Table + "_sessions]" }

// A Store keeps locks in two tables: a [store.Store] that is also a Poller, an
// Inspector and a Checker. Its methods are safe for concurrent use.
type Store struct {
	*record.Store
	b *backend
}

// A backend is a record.Backend in two tables.
type backend struct {
	*row.Base
	db    *sql.DB
	o     Options
	in    *strings.Replacer // puts the tables into statements
	clock func() int64      // tests only; nil: the server's clock
}

var _ record.Backend = (*backend)(nil)

// New returns a Store on the database, which stays yours: the Store never closes it, and it must be open while you use the
// Store. If it has a limit (SetMaxOpenConns) that others use up, no lease is renewed: give the locks their own pool. Its
// driver must be github.com/microsoft/go-mssqldb. New does no I/O: the first operation checks or creates the tables. The
// error matches store.ErrInvalid.
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
	return &backend{Base: row.NewBase("SQL Server, table " + all.locks()), db: db, o: all, in: strings.NewReplacer("{locks}", all.locks(), "{sessions}", all.sessions())}, err
}

// Describe implements [record.Backend].
func (b *backend) Describe() store.Description {
	return b.Description("a fail-over to a replica that commits asynchronously can lose the newest grants, and so can a crash of a server with DELAYED_DURABILITY; " +
		"then two may hold a name until the first one's TTL has passed")
}
