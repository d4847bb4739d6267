package mssqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/row"
	"github.com/holdfast-go/holdfast/store/session"
)

// A session is a row with its expiry on the server's clock, or 0 once it has ended for good. Every statement that
// decides about a session writes its row, so it sees the row's current state, locked.

func idOf(id session.ID) sql.NamedArg { return sql.Named("id", id[:]) }

// clockStep is how long the server's clock may stand still: Windows advances it every 1 to 15.625 ms.
const clockStep = 16 * time.Millisecond

// Begin implements [session.Backend]. The server's clock may show a time up to one step before the owner sent this or a
// renewal, so the owner assumes one step less.
func (b *backend) Begin(ctx context.Context, id session.ID, ttl time.Duration) (time.Duration, error) {
	b.SweepInTime(b.sweep)
	server, err := one(ask(ctx, b, "begin", numbers(1), idOf(id), number("ttl", ttl.Microseconds())))
	if err == nil {
		b.Met(server[0]) //mutant:mssql-server-of-a-begin
	}
	if is(err, duplicateKey, duplicateRow) {
		err = fmt.Errorf("%w: session %v was begun before", store.ErrInvalid, id)
	}
	return ttl - clockStep, err //mutant:mssql-clock-steps
}

// Renew implements [session.Backend]. The older of two renewals may run last, so an expiry is never moved back.
func (b *backend) Renew(ctx context.Context, id session.ID) (int64, error) {
	b.SweepInTime(b.sweep)
	answer, err := one(ask(ctx, b, "renew", numbers(2), idOf(id)))
	if err != nil {
		return 0, err
	}
	b.Met(answer[1]) //mutant:mssql-server-of-a-renewal
	if answer[0] < 0 {
		return 0, store.ErrLost
	}
	return answer[0], nil
}

// surely returns how long a session certainly lasts, in microseconds, if the server shows that remaining time: the
// server's clock may be one step behind.
func surely(shown int64) int64 {
	if shown <= 0 {
		return shown
	}
	return max(shown-clockStep.Microseconds(), 1) //mutant:mssql-look-counts-a-step
}

// Call implements [session.Backend].
func (b *backend) Call(ctx context.Context, id session.ID) error {
	return b.write(ctx, "call", idOf(id))
}

// End implements [session.Backend].
func (b *backend) End(ctx context.Context, id session.ID) error {
	return b.write(ctx, "end", idOf(id))
}

// Left implements [session.Backend].
func (b *backend) Left(ctx context.Context, ids []session.ID) ([]time.Duration, error) {
	return row.JudgeSessions(ids, func() (all []row.Left, err error) {
		for some := range slices.Chunk(ids, maxIDs) {
			if err == nil {
				var rows []row.Left
				rows, err = b.look(ctx, some)
				all = append(all, rows...)
			}
		}
		return all, err
	}, func(id session.ID) (bool, error) {
		n, err := one(ask(ctx, b, "expire", numbers(1), idOf(id)))
		return err == nil && n[0] > 0, err
	})
}

// maxIDs is how many sessions one request may ask about. The limits are 2,100 arguments, and 1,000 rows in a list of
// values.
const maxIDs = 512

// look reads the rows of sessions.
func (b *backend) look(ctx context.Context, ids []session.ID) ([]row.Left, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	statement, args := leftFor(b, ids)
	all, err := send(ctx, b, statement, args, func(rows *sql.Rows) (l row.Left, err error) {
		var id []byte
		err = rows.Scan(&id, &l.Expires, &l.For)
		copy(l.ID[:], id)
		l.For = surely(l.For)
		return l, err
	})
	for _, id := range ids {
		if err == nil && !slices.ContainsFunc(all, func(l row.Left) bool { return l.ID == id }) { //mutant:mssql-each-session-is-answered
			err = fmt.Errorf("the server's answer does not have the session %v", id)
		}
	}
	return all, err
}

// leftFor returns a request about the sessions. Their number is rounded up to a power of two by repeating the last one,
// so that the server has few statements to compile.
func leftFor(b *backend, ids []session.ID) (statement string, args []any) {
	statement, args = b.text("left")
	n := 1
	for n < len(ids) {
		n *= 2
	}
	var names []string
	for i := range n {
		name := fmt.Sprint("i", i)
		names, args = append(names, "@"+name), append(args, sql.Named(name, ids[min(i, len(ids)-1)][:]))
	}
	return strings.NewReplacer("{ids}", strings.Join(names, ","), "{asked}", "("+strings.Join(names, "),(")+")").Replace(statement), args
}
