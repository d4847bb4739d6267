// Package mysqlstore keeps locks in three tables of MariaDB or MySQL, by way of
// github.com/go-sql-driver/mysql.
//
// # Stored form
//
// A row per name in one table, holdfast_locks unless [Options] say otherwise; a row per session in another, with
// the same name and the suffix "_sessions"; and a row per note in a third, with "_notes". [Schema] returns the
// statements that create them. Names are VARBINARY, so case, accents and trailing blanks count. The record of a
// name has the format of package [github.com/holdfast-go/holdfast/store/record]. Each write gives it another
// random number (rev). A claim that comes during another write leaves a note, which is an INSERT and touches no
// existing row. The next write takes the notes in: it lists their numbers in the column taken, and from then on
// they are ignored. A session has its expiry by the server's clock, in microseconds since 1970, and how often
// its owner was called. The column form is the version of the whole format, 3; a row of a newer one is left
// alone.
//
// A name's row is deleted about a day after its last hold ended, a session's after its end, and a note's after
// it was taken in, in small steps in the background. If you delete a name yourself, delete its row and its
// notes: the row of the name lists which notes to ignore.
//
// # Guarantees
//
// The whole rule of package [github.com/holdfast-go/holdfast/store]: order, minimum hold, lock delay, slots,
// upgrades, blocks of tokens. A TTL is from 100 ms to 365 days. Time is the server's (UTC_TIMESTAMP(6)). Tokens
// of a name strictly increase while its row exists, and after that while the clock of the server is not behind
// the newest token.
//
// Every statement is a transaction of its own, and writes at most one row of a name or a session: a process that
// stops at any point blocks no other, and a locked row delays only its name. If the row of a session stays
// locked, all that the session keeps moves into another before it ends. A statement decides only by the row that
// it writes, so it is correct under every isolation level that reads committed data. An uncontended lock and
// unlock are two statements. A process has one session for each TTL of its claims, and one of ten seconds at
// most for its waiters, and renews each by one statement, however many names they keep. A hold lasts as long as
// the session, counted from the sending of its last answered renewal.
//
// The number of a record decides which write is done. A statement that writes a record does not wait for a lock
// on its row: of many simultaneous ones those that meet a locked row are refused and back off, and none waits in
// the server after its caller has left. (On MySQL the first write of a name can wait, if its row was created at
// that moment.) Connections of [Open] wait for a second for any other row; for a pool of your own, set
// innodb_lock_wait_timeout. An operation that lost such a race, or that the server did not apply (a deadlock,
// 1213; a lock wait timeout, 1205; a record that has changed, 1020), is retried until its context ends.
//
// It works with every sql_mode, with interpolateParams, parseTime and
// clientFoundRows either way, and with a pool of one connection: no statement has
// parameters. A connection with autocommit=0, or with READ UNCOMMITTED, is refused
// (store.ErrUnsupported), and nothing is written without autocommit.
//
// Waiters poll, as there are no notifications (decision 21 in docs/decisions says why): the next waiter in
// growing pauses up to 800 ms, those far behind less often. A poll reads; it writes only the end of an expired
// session.
//
// A fail-over to an asynchronous replica can lose grants: a name whose grant the replica has not received can be
// granted twice until the TTL of the first has passed. With the next renewal the process notices the new server,
// by server_id, server_uuid, host name and port: then it rewrites each of its holds, or finds it lost. Released
// entries that are back expire some TTLs later. A crash of a server whose innodb_flush_log_at_trx_commit is not
// 1 can lose as much, and is not noticed. Check the token where that matters.
//
// The row of a lock cannot be checked in a transaction of the caller's, as that of
// pgstore can: use package guard, also for data in the same database.
//
// # Requirements
//
// MariaDB 10.6 or newer, or MySQL 8.0.1 or newer, and InnoDB. The statements are the same for both;
// docs/stores.md says which they were tested on. To run all tests on a server, set HOLDFAST_TEST_MYSQL to its
// DSN. The connections go to the primary: a proxy that sends reads elsewhere (read/write split) must be told not
// to. In a Galera cluster all processes should use one node at a time: two nodes exclude each other, even while
// one is behind, as their writes are certified, but each judges expiry by its own clock. A group of Group
// Replication has one primary (group_replication_single_primary_mode): one with many was never tested, and
// doctor refuses it. Statement-based replication works under REPEATABLE READ; with binlog_format=STATEMENT and
// READ COMMITTED InnoDB refuses every write, including those of this package.
//
// # Rights
//
// These grants on the three tables suffice:
//
//	SELECT, INSERT, UPDATE   to lock
//	DELETE                   to delete rows that are used no more; without, they stay
//	CREATE                   to make the tables at first use; without, have somebody run Schema
package mysqlstore

import (
	"database/sql"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// DefaultTable is the table unless Options say otherwise.
const DefaultTable = "holdfast_locks"

// Options of a Store. Nil, and zero fields, mean the defaults. A name is made of letters, digits
// and underscores of ASCII, and does not begin with a digit.
type Options struct {
	// Database has the tables; if empty, it is the one that the connections are
	// in. At most 64 bytes.
	Database string
	// Table keeps the locks; DefaultTable if empty. A table with "_sessions" behind its name
	// keeps the sessions, and one with "_notes" the notes. Stores with different tables have
	// nothing to do with each other. At most 55 bytes.
	Table string
}

// A Store keeps locks in three tables: a [store.Store] that is also a Poller, an
// Inspector and a Checker. Its methods are safe for concurrent use.
type Store struct {
	*record.Store
	b *backend
}

// A backend is a record.Backend in three tables.
type backend struct {
	*row.Base
	db                *sql.DB
	o                 Options
	records, sessions string               // the tables, in SQL
	notes             string               // of those who want a name
	clock             func() int64         // nil but in tests: the server's clock
	seen              atomic.Pointer[look] // before the first operation, for the first check
}

var _ record.Backend = (*backend)(nil)

// New returns a Store on the database, which stays the caller's: it is never
// closed here, and must be open for as long as the Store is used. If it has a bound
// (SetMaxOpenConns) and others use it up, no lease is renewed: give the locks a pool of
// their own. Its driver has to be github.com/go-sql-driver/mysql. New does no I/O: the tables are looked at,
// or made, by the first operation. The error matches store.ErrInvalid.
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
	address := "MySQL or MariaDB, table " + all.Table
	if all.Database != "" {
		address += " of database " + all.Database
	}
	return &backend{Base: row.NewBase(address), db: db, o: all, records: all.quoted(&tables[0]), sessions: all.quoted(&tables[1]), notes: all.quoted(&tables[2])}, err
}

// Describe implements [record.Backend].
func (b *backend) Describe() store.Description {
	return b.Description("a fail-over to a replica that is not synchronous can lose the newest grants; then two may hold a name until the first one's TTL has passed. " +
		"So can a crash of a server whose innodb_flush_log_at_trx_commit is not 1; then two may hold a name until one of them gives it back, as the first does not learn of it")
}
