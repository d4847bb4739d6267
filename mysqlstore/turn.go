package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strconv"
	"time"
)

// A querier runs statements: a pool of connections, or one of them.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A turn lets those who write one row come one after another, by a lock of the
// server's that belongs to the connection (GET_LOCK). It keeps them from
// disturbing each other, and nothing depends on it: who has waited in vain for
// the one before, who may have stopped, goes on without, and it is the row's
// number that decides.
type turn struct {
	*sql.Conn
	lock string // in SQL; empty: it has none
}

// maxTurn is how long a turn is waited for at most.
const maxTurn = 5 * time.Second

// turn waits for the turn at a name, for half of the time that there is. The
// caller calls end with the same context.
func (s *Store) turn(ctx context.Context, name string) (*turn, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	wait := maxTurn
	if end, ok := ctx.Deadline(); ok {
		wait = max(0, min(wait, time.Until(end)/2))
	}
	t := &turn{conn, s.sql.turn(name)}
	seconds := strconv.FormatFloat(wait.Seconds(), 'f', 3, 64)
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+t.lock+","+seconds+")").Scan(&got); err != nil || got.Int64 != 1 {
		t.lock = ""
	}
	return t, nil // of a connection that is broken the next statement tells
}

// end gives the turn to the next, and the connection back. It waits for the server no longer
// than until the end of ctx: the turn ends with the connection, too.
func (t *turn) end(ctx context.Context) {
	if t.lock != "" {
		ctx, cancel := context.WithTimeout(ctx, maxTurn) //mutant:mysql-turn-outlasts-no-call
		defer cancel()
		if _, err := t.ExecContext(ctx, "DO RELEASE_LOCK("+t.lock+")"); err != nil {
			t.Raw(func(any) error { return driver.ErrBadConn }) // it ends with the connection
		}
	}
	t.Close()
}

// may is the condition of what is written there.
func (s *Store) may(on querier, name string) string {
	if on == querier(s.db) {
		return s.sql.undisturbed(name)
	}
	return commits
}
