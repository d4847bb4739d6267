package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// A Dialect checks tokens in one kind of SQL database. It is safe for concurrent
// use.
type Dialect struct {
	schema string
	// raise takes a name and a token, makes the fence the larger of the token
	// and what it was, and returns it. It locks the row, or more, until the end
	// of the transaction.
	raise string
	// tells is true if raise takes the token twice, and returns the fence as the
	// last inserted id.
	tells bool
	// seed takes a name and gives it a fence of 0 if it has none: for databases
	// that cannot lock a missing row. Others have no seed.
	seed string
	// read takes a name and returns its fence, or no row. No transaction that
	// raises the fence and commits comes between it and what the transaction
	// reads or writes after it.
	read string
	// forget takes a name and deletes its fence.
	forget string
}

// table is where the fences are, for people.
const table = "table holdfast_fence"

// SQLite checks tokens in SQLite 3.35 or newer, by any driver.
//
// Make Check the first statement of its transaction. A write lease's check takes the
// database's write lock there and then, and waits for it as long as the connection's
// busy_timeout says; after a statement that reads, SQLite would have to turn a read lock into
// the write lock, and fails at once if another transaction has written meanwhile
// (SQLITE_BUSY): safe, but the transaction must be started again, which [Dialect.Do] does not
// do on SQLite. The check of a read lease only reads, so a transaction that writes after it
// can fail in that way too. Where the driver can, BEGIN IMMEDIATE prevents that.
var SQLite = &Dialect{
	schema: `CREATE TABLE IF NOT EXISTS holdfast_fence (name BLOB NOT NULL PRIMARY KEY, fence INTEGER NOT NULL) WITHOUT ROWID`,
	raise: `INSERT INTO holdfast_fence (name, fence) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET fence = max(fence, excluded.fence) RETURNING fence`, //mutant:guard-sqlite-raise
	read:   `SELECT fence FROM holdfast_fence WHERE name = ?`,
	forget: `DELETE FROM holdfast_fence WHERE name = ?`,
}

// PostgreSQL checks tokens in PostgreSQL, by any driver, under any isolation level.
// Above READ COMMITTED, one of two concurrent transactions can fail with a
// serialization failure (40001): start it again, as [Dialect.Do] does.
//
// A write lease's check locks the fence's row until the transaction ends; a read
// lease's shares it with other readers.
var PostgreSQL = &Dialect{
	schema: `CREATE TABLE IF NOT EXISTS holdfast_fence (name bytea NOT NULL PRIMARY KEY, fence bigint NOT NULL)`,
	raise: `INSERT INTO holdfast_fence (name, fence) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET fence = greatest(holdfast_fence.fence, excluded.fence) RETURNING fence`, //mutant:guard-postgres-raise
	seed:   `INSERT INTO holdfast_fence (name, fence) VALUES ($1, 0) ON CONFLICT (name) DO NOTHING`,
	read:   `SELECT fence FROM holdfast_fence WHERE name = $1 FOR SHARE`, //mutant:guard-postgres-read
	forget: `DELETE FROM holdfast_fence WHERE name = $1`,
}

// MySQL checks tokens in MariaDB or MySQL with InnoDB, by
// github.com/go-sql-driver/mysql, under any isolation level. One of two concurrent
// transactions can be chosen to end a deadlock (1213): start it again, as [Dialect.Do]
// does.
//
// A write lease's check locks the fence's row until the transaction ends; a read
// lease's shares it with other readers. It must be the first statement of the
// transaction: under REPEATABLE READ, the default, a later read sees data as old
// as the first read.
var MySQL = &Dialect{
	schema: `CREATE TABLE IF NOT EXISTS holdfast_fence (name VARBINARY(512) NOT NULL PRIMARY KEY, fence BIGINT NOT NULL) ENGINE=InnoDB`,
	raise: `INSERT INTO holdfast_fence (name, fence) VALUES (?, LAST_INSERT_ID(?))
		ON DUPLICATE KEY UPDATE fence = LAST_INSERT_ID(GREATEST(fence, ?))`, //mutant:guard-mysql-raise
	tells:  true,
	seed:   `INSERT IGNORE INTO holdfast_fence (name, fence) VALUES (?, 0)`,
	read:   `SELECT fence FROM holdfast_fence WHERE name = ? LOCK IN SHARE MODE`, //mutant:guard-mysql-read
	forget: `DELETE FROM holdfast_fence WHERE name = ?`,
}

// Schema returns the statement that creates the table of fences,
// holdfast_fence, if it does not exist. It has one row for each name that was
// ever checked by a write lease, until [Dialect.Forget].
func (d *Dialect) Schema() string { return d.schema }

// Check returns nil if the resource has not seen a newer token, and a
// [StaleError] otherwise: then roll back. Call it at the beginning of every
// transaction that the lease protects, before anything is read.
//
// A write lease raises the fence, and the transaction has it locked until it
// ends: an older holder can write neither between the check and the commit, nor
// after. A roll-back lowers the fence again, so data read in a transaction
// counts only if that one is committed. A read lease is checked and changes
// nothing; its reads and writes in the transaction are either before or after
// those of any newer holder, or fail.
//
// Other errors: those of [Raises], before anything is sent, and the driver's.
func (d *Dialect) Check(ctx context.Context, tx *sql.Tx, l Lease) error {
	return d.CheckTx(ctx, sqlTx{tx}, l)
}

// CheckTx is [Dialect.Check] in a transaction of a driver that is used without
// database/sql. Package [github.com/holdfast-go/holdfast/pgstore/pgxguard] is that for pgx.
func (d *Dialect) CheckTx(ctx context.Context, tx Tx, l Lease) error {
	raises, err := Raises(l)
	if err != nil {
		return err
	}
	// Read after the mode: a token from before an upgrade is too small for a write.
	token := l.Token()
	fence, err := d.fence(ctx, tx, []byte(l.Name()), token, raises) //mutant:guard-fence-of-name
	if err != nil {
		return fmt.Errorf("guard %q by %s: check token %d: %w", l.Name(), table, token, err)
	}
	if fence > token { //mutant:guard-fence-compared
		return &StaleError{Name: l.Name(), Where: table, Token: token, Fence: fence}
	}
	return nil
}

// Forget deletes the fence of a name, in the transaction that deletes what its lock
// protects. From then on any token passes. So forget a name only when no past holder
// can still be working; and the resource, if it is recreated, must tolerate a late
// write from before. A name without a fence is no error. The errors are the
// driver's.
func (d *Dialect) Forget(ctx context.Context, tx *sql.Tx, name string) error {
	return d.ForgetTx(ctx, sqlTx{tx}, name)
}

// ForgetTx is [Dialect.Forget] in a transaction of a driver that is used without
// database/sql.
func (d *Dialect) ForgetTx(ctx context.Context, tx Tx, name string) error {
	if _, err := tx.Exec(ctx, d.forget, []byte(name)); err != nil { //mutant:guard-forgets-name
		return fmt.Errorf("guard %q by %s: forget it: %w", name, table, err)
	}
	return nil
}

// A Tx is a transaction, for guards of drivers that are used without
// database/sql.
type Tx interface {
	// QueryInt runs a statement that returns at most one row with one number. found
	// is false if there was no row.
	QueryInt(ctx context.Context, statement string, args ...any) (n int64, found bool, err error)
	// Exec runs a statement that returns nothing. id is the one that it inserted
	// last, on databases that return it.
	Exec(ctx context.Context, statement string, args ...any) (id int64, err error)
}

type sqlTx struct{ *sql.Tx }

func (tx sqlTx) QueryInt(ctx context.Context, statement string, args ...any) (n int64, found bool, err error) {
	switch err := tx.QueryRowContext(ctx, statement, args...).Scan(&n); {
	case errors.Is(err, sql.ErrNoRows): //mutant:guard-no-fence-yet
		return 0, false, nil
	case err != nil:
		return 0, false, err
	}
	return n, true, nil
}

func (tx sqlTx) Exec(ctx context.Context, statement string, args ...any) (id int64, err error) {
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	id, _ = result.LastInsertId() // PostgreSQL's drivers return none
	return id, nil
}

// fence raises the fence of the name if raises is set, and returns it, 0 if
// there is none.
func (d *Dialect) fence(ctx context.Context, tx Tx, name []byte, token int64, raises bool) (fence int64, err error) {
	if raises && d.tells {
		return tx.Exec(ctx, d.raise, name, token, token)
	}
	query, args := d.read, []any{name}
	if raises {
		query, args = d.raise, append(args, token) //mutant:guard-check-raises
	}
	fence, found, err := tx.QueryInt(ctx, query, args...)
	if found || err != nil {
		return fence, err
	}
	if d.seed == "" { //mutant:guard-first-reader-locks
		return 0, nil // it was not raised yet
	}
	if _, err := tx.Exec(ctx, d.seed, name); err != nil {
		return 0, err
	}
	fence, _, err = tx.QueryInt(ctx, d.read, name)
	return fence, err
}
