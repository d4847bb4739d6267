package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/row"
	"github.com/holdfast-go/holdfast/store/session"
)

// A session is a row with its expiry on the server's clock, or 0 once it has ended for good. Every statement that decides
// about a session writes its row, so it sees the row's current state, locked.

// Begin implements [session.Backend].
func (b *backend) Begin(ctx context.Context, id session.ID, ttl time.Duration) (time.Duration, error) {
	if err := b.prepare(ctx); err != nil {
		return 0, err
	}
	b.SweepInTime(b.sweep)
	us := number(ttl.Microseconds())
	returned, n, err := b.tell(ctx, "INSERT INTO "+b.sessions+" (id,expires,ttl,calls) SELECT "+text(id[:])+","+b.now()+"+"+us+","+us+
		",0*"+answers("0")+" FROM DUAL WHERE 1=1"+commits)
	switch b.met(returned); {
	case is(err, duplicate):
		return 0, fmt.Errorf("%w: session %v was begun before", store.ErrInvalid, id)
	case err == nil && n == 0:
		err = b.unfit(0)
	}
	return ttl, err
}

// callsBits is how many bits of the answer to a Renew have the session's calls. The rest identifies the server.
const callsBits = 40

// answers makes a statement return how often a session was called, and which server ran it. The server is a number of 22
// bits, plus one bit so that it is not 0. Servers that replicate from one another have different numbers (server_id).
func answers(calls string) string {
	const server = "COALESCE(CRC32(@@hostname),0)+@@port*69621+@@server_id*48271/*!80001 +COALESCE(CRC32(@@server_uuid),0)*/"
	return "LAST_INSERT_ID((MOD(" + server + ",4194304)+4194304)*" + number(1<<callsBits) + "+" + calls + ")" //mutant:mysql-which-server
}

// met notes which server has answered.
func (b *backend) met(returned int64) {
	if returned > 0 {
		b.Met(returned >> callsBits)
	}
}

// Renew implements [session.Backend]. The older of two renewals may run last, so an expiry is never moved back.
func (b *backend) Renew(ctx context.Context, id session.ID) (calls int64, err error) {
	if err := b.prepare(ctx); err != nil {
		return 0, err
	}
	b.SweepInTime(b.sweep)
	now, of := b.now(), " WHERE id="+text(id[:]) //mutant:mysql-session-by-its-key
	returned, _, err := b.decide(ctx, "UPDATE "+b.sessions+" SET expires="+
		"GREATEST(expires,"+now+"+ttl)"+ //mutant:mysql-renewed-back
		",calls=calls+0*"+answers("calls")+of+" AND "+
		"expires>"+now+ //mutant:mysql-renewed-when-over
		commits)
	if b.met(returned); err != nil || returned > 0 {
		return returned & (1<<callsBits - 1), err //mutant:mysql-calls-of-a-renewal
	}
	var fits, there int64
	err = b.db.QueryRowContext(ctx, "SELECT "+fit+",(SELECT COUNT(*) FROM "+b.sessions+of+" AND expires>"+now+")").Scan(&fits, &there)
	switch {
	case err != nil:
		return 0, b.failed(err)
	case fits == 1 && there > 0:
		return 0, errors.New("the session was not renewed, though it is there")
	}
	return 0, first(b.unfit(fits), store.ErrLost)
}

// decide runs a statement on the row of a session. It repeats the statement if the row has changed since the statement
// began to wait for it: under SERIALIZABLE, MariaDB 11.8 reports that and does nothing. Each time another writer made
// progress.
func (b *backend) decide(ctx context.Context, statement string) (returned, changed int64, err error) {
	for {
		returned, changed, err = b.tell(ctx, statement)
		if !is(err, recordChanged) || ctx.Err() != nil { //mutant:mysql-record-changed
			return returned, changed, err
		}
	}
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// write changes a session if it exists.
func (b *backend) write(ctx context.Context, id session.ID, set string) error {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	_, n, err := b.decide(ctx, "UPDATE "+b.sessions+" SET "+set+" WHERE id="+text(id[:])+commits)
	if err != nil || n > 0 {
		return err
	}
	var fits int64 // no row changed: the session does not exist, or the connection is unfit
	if err := b.db.QueryRowContext(ctx, "SELECT "+fit).Scan(&fits); err != nil {
		return b.failed(err)
	}
	return b.unfit(fits)
}

// Call implements [session.Backend].
func (b *backend) Call(ctx context.Context, id session.ID) error {
	return b.write(ctx, id, "calls=calls+1")
}

// End implements [session.Backend].
func (b *backend) End(ctx context.Context, id session.ID) error { return b.write(ctx, id, "expires=0") }

// Left implements [session.Backend].
func (b *backend) Left(ctx context.Context, ids []session.ID) ([]time.Duration, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	return row.JudgeSessions(ids, func() ([]row.Left, error) { return b.lives(ctx, ids) }, func(id session.ID) (bool, error) {
		_, n, err := b.decide(ctx, "UPDATE "+b.sessions+" SET expires=0 WHERE id="+text(id[:])+" AND expires<="+b.now()+" AND expires<>0"+commits) //mutant:mysql-end-is-final
		return n > 0, err
	})
}

// lives reads the rows of sessions.
func (b *backend) lives(ctx context.Context, ids []session.ID) (all []row.Left, err error) {
	var in []string
	for i := range ids {
		in = append(in, text(ids[i][:]))
	}
	rows, err := b.db.QueryContext(ctx, "SELECT "+fit+",id,expires,expires-"+b.now()+" FROM (SELECT 1 AS one) AS o LEFT JOIN "+b.sessions+" ON id IN ("+strings.Join(in, ",")+")")
	if err != nil {
		return nil, b.failed(err)
	}
	defer rows.Close()
	for rows.Next() {
		var fits int64
		var id []byte
		var expires, us sql.NullInt64
		if err := rows.Scan(&fits, &id, &expires, &us); err != nil {
			return nil, b.failed(err)
		}
		if err := b.unfit(fits); err != nil {
			return nil, err
		}
		if len(id) == len(session.ID{}) {
			all = append(all, row.Left{ID: session.ID(id), Expires: expires.Int64, For: us.Int64})
		}
	}
	return all, b.failed(rows.Err())
}
