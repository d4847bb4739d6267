package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/mysqlstore"
)

var onMySQL = []contender{
	onStore(openOnMySQL),
	{name: tableLease, open: openMySQLLease},
	{name: "GET_LOCK", open: openGetLock},
}

func openMySQLPool(dsn string) (*sql.DB, error) {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(16)
	if err := db.Ping(); err != nil { // connect each contender before it is measured
		db.Close()
		return nil, err
	}
	return db, nil
}

func openOnMySQL(dsn string, o *holdfast.Options) (ours, error) {
	db, err := openMySQLPool(dsn)
	if err != nil {
		return ours{}, err
	}
	s, err := mysqlstore.New(db, nil)
	return oursOn(s, err, o, func() { db.Close() })
}

// lockMySQLLease inserts a row, and deletes it if the row is still its own. It polls every 10
// ms. After a deadlock it repeats the statement at once, as MySQL's manual recommends ("How to
// Minimize and Handle Deadlocks").
type lockMySQLLease struct{ db *sql.DB }

func openMySQLLease(dsn string) (locks, error) {
	db, err := openMySQLPool(dsn)
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS lease (name VARBINARY(255) PRIMARY KEY, value VARBINARY(32) NOT NULL, expires DATETIME(6) NOT NULL)`)
	return lockMySQLLease{db}, err
}

func (p lockMySQLLease) lock(ctx context.Context, name string) (func() error, error) {
	for {
		n, err := p.write(ctx, `INSERT IGNORE INTO lease VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL ? SECOND)`, name, someOwner, int(ttl.Seconds()))
		if err != nil {
			return nil, err
		}
		if n == 1 {
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return func() error {
		_, err := p.write(context.Background(), `DELETE FROM lease WHERE name = ? AND value = ?`, name, someOwner)
		return err
	}, nil
}

// write runs a statement and returns how many rows it wrote.
func (p lockMySQLLease) write(ctx context.Context, statement string, args ...any) (int64, error) {
	for {
		result, err := p.db.ExecContext(ctx, statement, args...)
		var refused *mysql.MySQLError
		if errors.As(err, &refused) && refused.Number == 1213 {
			continue
		}
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	}
}

func (p lockMySQLLease) close() error { return p.db.Close() }

// lockGetLock needs a connection for each lock. It has no visible queue, no token and no
// expiry.
type lockGetLock struct{ db *sql.DB }

func openGetLock(dsn string) (locks, error) {
	db, err := openMySQLPool(dsn)
	return lockGetLock{db}, err
}

func (p lockGetLock) lock(ctx context.Context, name string) (func() error, error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var got int
	if err := conn.QueryRowContext(ctx, `SELECT GET_LOCK(?, 1000)`, name).Scan(&got); err != nil || got != 1 {
		conn.Close()
		return nil, fmt.Errorf("GET_LOCK: %d, %w", got, err)
	}
	return func() error {
		defer conn.Close()
		_, err := conn.ExecContext(context.Background(), `DO RELEASE_LOCK(?)`, name)
		return err
	}, nil
}

func (p lockGetLock) close() error { return p.db.Close() }
