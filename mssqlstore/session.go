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

// A session is a row: when it expires on the server's clock, or 0 once that is final. Every statement that decides on a
// session writes its row, so it reads it as it is once it has it locked.

// SessionTraits implements [session.Backend].
func (b *backend) SessionTraits() session.Traits {
	return session.Traits{Life: session.ByServerClock, MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Microsecond}
}

func idOf(id session.ID) sql.NamedArg { return sql.Named("id", id[:]) }

// Begin implements [session.Backend].
func (b *backend) Begin(ctx context.Context, id session.ID, ttl time.Duration) (time.Duration, error) {
	b.sweepInTime()
	_, err := b.tell(ctx, "begin", 0, idOf(id), sql.Named("ttl", ttl.Microseconds()))
	if is(err, duplicateKey, duplicateRow) {
		err = fmt.Errorf("%w: session %v was begun before", store.ErrInvalid, id)
	}
	return ttl, err
}

// Renew implements [session.Backend]. Of two renewals the older may be done last, so an expiry is never moved back.
func (b *backend) Renew(ctx context.Context, id session.ID) (calls int64, err error) {
	b.sweepInTime()
	told, err := b.tell(ctx, "renew", 1, idOf(id))
	if err == nil && told[0] < 0 {
		err = store.ErrLost
	}
	return told[0], err
}

// Call implements [session.Backend].
func (b *backend) Call(ctx context.Context, id session.ID) error {
	_, err := b.tell(ctx, "call", 0, idOf(id))
	return err
}

// End implements [session.Backend].
func (b *backend) End(ctx context.Context, id session.ID) error {
	_, err := b.tell(ctx, "end", 0, idOf(id))
	return err
}

// Left implements [session.Backend].
func (b *backend) Left(ctx context.Context, ids []session.ID) ([]time.Duration, error) {
	return row.JudgeSessions(ids, func() (all []row.Left, err error) {
		for some := range slices.Chunk(ids, maxIDs) {
			rows, err := b.look(ctx, some)
			if err != nil {
				return nil, err
			}
			all = append(all, rows...)
		}
		return all, nil
	}, func(id session.ID) (bool, error) {
		n, err := b.tell(ctx, "expire", 1, idOf(id))
		return n[0] > 0, err
	})
}

// maxIDs is how many a request asks about: it can have 2,100 arguments.
const maxIDs = 1024

// leftFor is a request about some sessions: about 1, 2, 4 … of them, the last again and again. So there are few texts to
// compile.
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
	return strings.Replace(statement, "{ids}", strings.Join(names, ","), 1), args
}

// look reads the rows of sessions.
func (b *backend) look(ctx context.Context, ids []session.ID) ([]row.Left, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	statement, args := leftFor(b, ids)
	return ask(ctx, b, statement, args, func(rows *sql.Rows) (l row.Left, err error) {
		var id []byte
		err = rows.Scan(&id, &l.Expires, &l.For)
		copy(l.ID[:], id) // a table that was made with ANSI_PADDING OFF keeps no zero bytes at the end
		return l, err
	})
}

// Await implements [session.Backend].
func (b *backend) Await(context.Context, session.ID) error { return store.ErrUnsupported }
