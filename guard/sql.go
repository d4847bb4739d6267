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
	// tells says that raise takes the token twice, and returns the fence as the
	// id that was inserted last.
	tells bool
	// seed takes a name and gives it a fence of 0 if it has none: for databases
	// where what is not there cannot be locked. Others have none.
	seed string
	// read takes a name and returns its fence, or no row. No transaction that
	// raises the fence and commits comes between it and what the transaction
	// reads or writes after it.
	read string
}

// table is where the fences are, for people.
const table = "table holdfast_fence"

// SQLite checks tokens in SQLite 3.35 or newer, by any driver.
//
// Make Check the first statement of its transaction. A write lease's check takes
// the database's write lock there and then, and waits for it as long as the
// connection's busy_timeout says; behind a statement that reads, SQLite would
// have to turn a read lock into the write lock, and fails at once if another
// has written meanwhile (SQLITE_BUSY): safe, but to be begun anew. Where the
// driver can, BEGIN IMMEDIATE is just as good.
var SQLite = &Dialect{
	schema: `CREATE TABLE IF NOT EXISTS holdfast_fence (name BLOB NOT NULL PRIMARY KEY, fence INTEGER NOT NULL) WITHOUT ROWID`,
	raise: `INSERT INTO holdfast_fence (name, fence) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET fence = max(fence, excluded.fence) RETURNING fence`,
	read: `SELECT fence FROM holdfast_fence WHERE name = ?`,
}

// PostgreSQL checks tokens in PostgreSQL, by any driver, under any isolation
// level. Above READ COMMITTED who comes at the same time as another can fail with
// a serialization failure (40001): begin anew.
//
// A write lease's check locks the fence's row until the transaction ends; a read
// lease's shares it with other readers.
var PostgreSQL = &Dialect{
	schema: `CREATE TABLE IF NOT EXISTS holdfast_fence (name bytea NOT NULL PRIMARY KEY, fence bigint NOT NULL)`,
	raise: `INSERT INTO holdfast_fence (name, fence) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET fence = greatest(holdfast_fence.fence, excluded.fence) RETURNING fence`,
	seed: `INSERT INTO holdfast_fence (name, fence) VALUES ($1, 0) ON CONFLICT (name) DO NOTHING`,
	read: `SELECT fence FROM holdfast_fence WHERE name = $1 FOR SHARE`,
}

// MySQL checks tokens in MariaDB or MySQL with InnoDB, by
// github.com/go-sql-driver/mysql, under any isolation level. Who comes at the
// same time as another can be chosen to end a deadlock (1213): begin anew.
//
// A write lease's check locks the fence's row until the transaction ends; a read
// lease's shares it with other readers. It must be the first statement of the
// transaction: under REPEATABLE READ, the default, what is read after an earlier
// read is as old as that.
var MySQL = &Dialect{
	schema: `CREATE TABLE IF NOT EXISTS holdfast_fence (name VARBINARY(512) NOT NULL PRIMARY KEY, fence BIGINT NOT NULL) ENGINE=InnoDB`,
	raise: `INSERT INTO holdfast_fence (name, fence) VALUES (?, LAST_INSERT_ID(?))
		ON DUPLICATE KEY UPDATE fence = LAST_INSERT_ID(GREATEST(fence, ?))`,
	tells: true,
	seed:  `INSERT IGNORE INTO holdfast_fence (name, fence) VALUES (?, 0)`,
	read:  `SELECT fence FROM holdfast_fence WHERE name = ? LOCK IN SHARE MODE`,
}

// Schema is the statement that makes the table of fences, holdfast_fence, if it
// is not there. It has one row for each name that was ever checked by a write
// lease. A row may be deleted only when nothing of what its lock protects is
// left.
func (d *Dialect) Schema() string { return d.schema }

// Check lets the transaction go on if nobody with a newer token has been here,
// and is a [StaleError] otherwise: then roll back. Call it at the beginning of
// every transaction that the lease protects, before anything is read.
//
// A write lease raises the fence, and the transaction has it locked until it
// ends: an older holder gets in neither between the check and the commit, nor
// after. A roll-back lowers the fence again, so what was read in a transaction
// counts only if that one is committed. A read lease is checked and changes
// nothing; what it reads and writes in the transaction is either before or after
// that of any newer holder, or fails.
//
// Other errors: those of [Raises], before anything is sent, and the driver's.
func (d *Dialect) Check(ctx context.Context, tx *sql.Tx, l Lease) error {
	raises, err := Raises(l)
	if err != nil {
		return err
	}
	// After the mode: a token of before an upgrade is too small for a write.
	token := l.Token()
	fence, err := d.fence(ctx, tx, []byte(l.Name()), token, raises)
	if err != nil {
		return fmt.Errorf("guard %q by %s: check token %d: %w", l.Name(), table, token, err)
	}
	if fence > token {
		return &StaleError{Name: l.Name(), Where: table, Token: token, Fence: fence}
	}
	return nil
}

// fence raises the fence of the name if asked to, and returns it, 0 if there is
// none.
func (d *Dialect) fence(ctx context.Context, tx *sql.Tx, name []byte, token int64, raises bool) (fence int64, err error) {
	if raises && d.tells {
		result, err := tx.ExecContext(ctx, d.raise, name, token, token)
		if err != nil {
			return 0, err
		}
		return result.LastInsertId()
	}
	query, args := d.read, []any{name}
	if raises {
		query, args = d.raise, append(args, token)
	}
	err = tx.QueryRowContext(ctx, query, args...).Scan(&fence)
	if raises || !errors.Is(err, sql.ErrNoRows) {
		return fence, err
	}
	if d.seed == "" {
		return 0, nil // nobody has raised it yet
	}
	if _, err := tx.ExecContext(ctx, d.seed, name); err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, d.read, name).Scan(&fence)
	return fence, err
}
