// Package mysqlstore keeps locks in a table of MariaDB or MySQL, by way of
// github.com/go-sql-driver/mysql.
//
// # Stored form
//
// A row a name in one table, holdfast_locks unless [Options] say otherwise;
// [Schema] is the statement that makes it. Names are VARBINARY, so case, accents
// and trailing blanks count. The columns are the newest token, the number of
// entries (total; 0 is an idle name, whose other columns mean nothing), and the
// fields of the first entry, which is all there is of a name that nobody waits
// for. The entries behind it are in the column rest, in a form that begins with
// its version. Instants are microseconds since 1970 by the server's clock. Each
// write gives the row another random number (rev). The column form is the
// version of it all, 1; a row of a newer one is left alone.
//
// A row is deleted about a day after the last of its entries was over, in small
// steps beside the locking.
//
// # Guarantees
//
// The whole rule: order, minimum hold, lock delay, slots, upgrades, blocks of
// tokens. Time is the server's (UTC_TIMESTAMP(6)). Tokens of a name strictly
// increase as long as its row is there, and beyond that as long as the clock of
// the server is not behind the newest token.
//
// Every statement is a transaction of its own, and no row is locked for longer
// than one statement: a process that stops at any point holds up nobody.
// Taking, renewing and giving back a name that nobody else wants are one
// statement each, which decides by the clock of the server and tells by
// LAST_INSERT_ID how it came out; the numbers of rows affected, which a
// connection's clientFoundRows changes, mean nothing. Where somebody else is
// there the row is read, what is to become of it is computed by the rule itself
// (package store/queue), and it is written if nobody has written it since; if
// somebody has, all that is repeated, at most three times. So is what the server
// did not apply: a deadlock (1213), a lock wait that took too long (1205), a
// record that has changed (1020).
//
// It works under every isolation level and sql_mode, with interpolateParams,
// parseTime and clientFoundRows either way, and with a pool of one connection:
// no statement has parameters. A connection with autocommit=0 is refused
// (store.ErrUnsupported), and nothing is written on it.
//
// Waiters look, reading only, in growing pauses: nothing wakes them
// (docs/decisions says why).
//
// What a fail-over to an asynchronous replica loses is not kept: a grant that
// the replica has not heard of can be given twice until the TTL of the first is
// over. The same goes for a server whose innodb_flush_log_at_trx_commit is not
// 1, after a crash. Check the token where that matters.
//
// The row of a lock cannot be checked in a transaction of the caller's, as that of
// pgstore can: use package guard, also for data in the same database.
//
// # Requirements
//
// MariaDB 10.6 or newer, or MySQL 8.0.1 or newer, and InnoDB. The statements are
// the same for both. Every change is tested on MariaDB 10.11, and what differs
// on MySQL is tested on MySQL 9.7. To run all tests on a server, set
// HOLDFAST_TEST_MYSQL to its DSN. The
// connections go to the primary: a proxy that sends reads elsewhere (read/write
// split) must be told not to. Statement-based replication works under
// REPEATABLE READ; with binlog_format=STATEMENT and READ COMMITTED InnoDB
// refuses every write, ours too. On MySQL leave binlog_format at ROW, its
// default: a log of statements cannot repeat that locked rows were left out.
//
// # Rights
//
// These grants on the table suffice:
//
//	SELECT, INSERT, UPDATE   to lock
//	DELETE                   to delete idle rows; without, they stay
//	CREATE                   to make the table at first use; without, have somebody run Schema
package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// DefaultTable is the table unless Options say otherwise.
const DefaultTable = "holdfast_locks"

// The range of TTLs, minimum holds and lock delays.
const (
	minTTL = 100 * time.Millisecond
	maxTTL = 365 * 24 * time.Hour
)

// Options of a Store. Nil, and zero fields, mean the defaults. A name is 1 to 64
// letters, digits and underscores of ASCII, and does not begin with a digit.
type Options struct {
	// Database has the table; if empty, it is the one that the connections are
	// in.
	Database string
	// Table keeps the locks; DefaultTable if empty. Stores with different tables
	// have nothing to do with each other.
	Table string
}

// A Store keeps locks in a table. Its methods are safe for concurrent use.
type Store struct {
	db      *sql.DB
	own     bool   // opened by us, so closed by us
	address string // for people
	o       Options
	sql     statements

	checked  atomic.Bool   // the table is there and is ours
	checking chan struct{} // has room for the one call that looks at the table

	ctx   context.Context // of the sweeping, ended by Close
	end   context.CancelFunc
	tasks sync.WaitGroup
	swept sweeper
	seen  seen
}

var _ interface {
	store.Store
	store.Looker
	store.Inspector
	store.Checker
} = (*Store)(nil)

// New returns a Store on the database, which stays the caller's: it is never
// closed here, and must be open for as long as the Store is used. Its driver has
// to be github.com/go-sql-driver/mysql. New does no I/O: the table is looked at,
// or made, by the first operation. The error matches store.ErrInvalid.
func New(db *sql.DB, o *Options) (*Store, error) {
	return newStore(db, o, nil)
}

func newStore(db *sql.DB, o *Options, clock func() int64) (*Store, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: the database is nil", store.ErrInvalid)
	}
	s := &Store{db: db, o: Options{Table: DefaultTable}, checking: make(chan struct{}, 1)}
	if o != nil {
		s.o.Database = o.Database
		if o.Table != "" {
			s.o.Table = o.Table
		}
	}
	if err := s.o.check(); err != nil {
		return nil, err
	}
	s.address = "MySQL or MariaDB, table " + s.o.Table
	if s.o.Database != "" {
		s.address += " of database " + s.o.Database
	}
	s.sql = statements{table: s.o.quoted(), clock: clock}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Describe implements [store.Store].
func (s *Store) Describe() store.Description {
	return store.Description{
		Store:  s.address,
		MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Microsecond,
		Tokens: "when the name's row is lost and the clock of the server that answers is behind the newest token",
		Loses: "a fail-over to a replica that is not synchronous can lose the newest grants, and so can a crash of a server whose " +
			"innodb_flush_log_at_trx_commit is not 1; then two may hold a name until the TTL of the first is over",
		Forgets: []store.Accident{store.AccidentWipe, store.AccidentFailOver, store.AccidentClockStep},
		Crash:   store.CrashTTL,
	}
}

// Close implements [store.Store]. The database of New stays open.
func (s *Store) Close() (err error) {
	s.end()
	s.tasks.Wait()
	if s.own {
		err = s.db.Close()
	}
	return err
}
