// Package mysqlstore keeps locks in three tables of MariaDB or MySQL, using
// github.com/go-sql-driver/mysql.
//
// # Stored form
//
// One table has a row for each name: holdfast_locks unless [Options] say otherwise. A second one, with the suffix
// "_sessions", has a row for each session, and a third one, with "_notes", a row for each note. [Schema] returns the
// statements that create them. Names are VARBINARY, so case, accents and trailing blanks count. The record of a name
// has the format of package [github.com/holdfast-go/holdfast/store/record]. Each write gives it a new random number
// (rev). A claim that comes during another write adds a note, which is an INSERT and touches no existing row. The next
// write takes the notes in: it lists their numbers in the column taken, and from then on they are ignored. A session has
// its expiry by the server's clock, in microseconds since 1970, and a counter of calls. The column form is the version of
// the whole format, 3; rows with a newer one are left alone.
//
// A name's row is deleted about a day after its last hold ended, a session's after its end, and a note's after it was
// taken in, in small steps in the background. If you delete a name yourself, delete its row and its notes: the row lists
// which notes to ignore.
//
// # Guarantees
//
// All of package [github.com/holdfast-go/holdfast/store]: order, minimum hold, lock delay, slots, upgrades, blocks of
// tokens. TTLs are from 100 ms to 365 days. Time is the server's (UTC_TIMESTAMP(6)). Tokens of a name strictly increase
// while its row exists, and after that unless the server's clock is behind the newest token.
//
// Every statement is its own transaction, and writes at most one row of a name or a session. So a process that stops at
// any point blocks no other, and a locked row delays only its name. If the row of a session stays locked, everything in
// the session moves to another one before it ends. A statement decides only by the row that it writes, so it is correct
// under every isolation level that reads committed data. An uncontended lock and unlock are two statements. A process has
// one session for each TTL of its claims, and one of at most ten seconds for its waiters, and renews each with one
// statement, however many names are in it. A hold lasts as long as its session, counted from the sending of the last
// renewal that was answered.
//
// The number of a record decides which write is done. A statement that writes a record does not wait for a lock on its
// row: of many simultaneous ones, those that find the row locked are refused and back off, and none waits in the server
// after its caller has left. (On MySQL the first write of a name can wait if its row was created at that moment.)
// Connections of [Open] wait up to a second for any other row; for your own pool, set innodb_lock_wait_timeout. An
// operation that lost such a race, or that the server did not apply (a deadlock, 1213; a lock wait timeout, 1205; a record
// that has changed, 1020), is retried until its context ends.
//
// It works with every sql_mode, with interpolateParams, parseTime and clientFoundRows on or off, and with a pool of one
// connection: no statement has parameters. A connection with autocommit=0 or READ UNCOMMITTED is refused
// (store.ErrUnsupported), and nothing is written without autocommit.
//
// Waiters poll, because there are no notifications (see decision 21 in docs/decisions): the first waiter with growing
// pauses up to 800 ms, those far behind less often. A poll only reads, except that it ends expired sessions.
//
// A fail-over to an asynchronous replica can lose grants: a name whose grant the replica has not received can be granted
// again before the TTL of the first grant has passed. With its next renewal a process notices the new server, by
// server_id, server_uuid, host name and port, and then rewrites each of its holds or finds it lost. Released entries that
// have come back expire some TTLs later. A crash of a server whose innodb_flush_log_at_trx_commit is not 1 can lose as
// much, and is not noticed. Check the token where that matters.
//
// Unlike in pgstore, you cannot check the row of a lock in your own transaction: use package guard, even for data in the
// same database.
//
// # Requirements
//
// MariaDB 10.6 or newer, or MySQL 8.0.1 or newer, and InnoDB. The statements are the same for both; docs/stores.md says
// which versions they were tested on. To run all tests on a server, set HOLDFAST_TEST_MYSQL to its DSN. Connections must
// go to the primary: configure a proxy not to send reads elsewhere (read/write split). In a Galera cluster all processes
// should use one node at a time. Two nodes exclude each other even while one is behind, because their writes are
// certified, but each decides about expiry by its own clock. Group Replication must have one primary
// (group_replication_single_primary_mode); many primaries were never tested, and doctor refuses them. Statement-based
// replication works under REPEATABLE READ. With binlog_format=STATEMENT and READ COMMITTED, InnoDB refuses every write,
// including those of this package.
//
// # Rights
//
// These grants on the three tables are enough:
//
//	SELECT, INSERT, UPDATE   to lock
//	DELETE                   to delete unused rows; without, they stay
//	CREATE                   to create the tables at first use; without, have somebody run Schema
package mysqlstore

import (
	"database/sql"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/row"
)

// DefaultTable is the table unless Options.Table is set.
const DefaultTable = "holdfast_locks"

// Options of a Store. Nil, and zero fields, mean the defaults. Names consist of ASCII letters,
// digits and underscores, and do not begin with a digit.
type Options struct {
	// Database has the tables; if empty, the connections' own database has them. At most 64
	// bytes.
	Database string
	// Table keeps the locks; DefaultTable if empty. Tables with the suffixes "_sessions" and
	// "_notes" keep the sessions and the notes. Stores with different tables do not share
	// locks. At most 55 bytes.
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
	notes             string               // the table of notes
	clock             func() int64         // tests only; nil: the server's clock
	seen              atomic.Pointer[look] // what prepare has seen, for the first check
}

var _ record.Backend = (*backend)(nil)

// New returns a Store on the database, which stays yours: the Store never closes it, and it
// must be open while you use the Store. If it has a limit (SetMaxOpenConns) that others use
// up, no lease is renewed: give the locks their own pool. Its driver must be
// github.com/go-sql-driver/mysql. New does no I/O: the first operation checks or creates the
// tables. The error matches store.ErrInvalid.
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
