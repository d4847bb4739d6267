package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/pgstore/pgadvisory"
)

// onSessions are the contenders that keep all locks of a process on one connection.
var onSessions = []contender{
	{name: "holdfast", open: openOnSession},
	{name: "holdfast with tokens", open: openOnSessionWithTokens},
	{name: bareSession, open: openBareSession},
}

// bareSession is not a library: it is two functions of the server. It is the reference of its
// table.
const bareSession = "try + unlock, one connection"

func openOnSession(url string) (locks, error) { return openSessionWith(url, nil) }

func openOnSessionWithTokens(url string) (locks, error) {
	return openSessionWith(url, &pgadvisory.Options{Tokens: true})
}

func openSessionWith(url string, o *pgadvisory.Options) (locks, error) {
	s, err := pgadvisory.Open(url, o)
	return oursOn(s, err, nil, nil)
}

// lockSession is for one goroutine at a time, like its connection.
type lockSession struct{ conn *pgx.Conn }

func openBareSession(url string) (locks, error) {
	conn, err := pgx.Connect(context.Background(), url)
	return lockSession{conn}, err
}

func (p lockSession) lock(ctx context.Context, name string) (func() error, error) {
	for {
		var got bool
		if err := p.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended($1, 0))`, name).Scan(&got); err != nil {
			return nil, err
		}
		if got {
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return func() error {
		_, err := p.conn.Exec(context.Background(), `SELECT pg_advisory_unlock(hashtextextended($1, 0))`, name)
		return err
	}, nil
}

func (p lockSession) close() error { return p.conn.Close(context.Background()) }

// sessionPairs measures locks on one connection.
func sessionPairs(ctx context.Context, s setup, url string) error {
	runners, stop, err := pairRunners(ctx, s, onSessions, url, 1)
	if err != nil {
		return err
	}
	defer stop()
	return rounds(ctx, s, "PostgreSQL sessions: uncontended lock and unlock on one connection", bareSession, pairColumns, runners)
}
