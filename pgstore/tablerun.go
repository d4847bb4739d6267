package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// repeats is how often a statement that certainly was not applied is sent.
	repeats = 3
	// idleClosed is how often a statement is sent if the server had closed its connection for being
	// idle. Each attempt removes one such connection from the pool, and all idle ones may be
	// closed.
	idleClosed = 100
	// renewers is how many statements of one call are under way at a time.
	renewers = 4
)

// run runs a statement, and repeats it if the server says that it was not applied. It calls begin
// before each attempt.
func (s *Store) run(ctx context.Context, statement string, args []any, begin func(), row func(scan func(...any) error) error) error {
	if s.clock != nil {
		args = append(args[:len(args):len(args)], s.clock())
	}
	return s.send(ctx, statement, args, begin, row)
}

// send is run for a statement without a time argument.
func (s *Store) send(ctx context.Context, statement string, args []any, begin func(), row func(scan func(...any) error) error) error {
	urgent := s.do.urgent(statement)
	for try, idle := 1, 0; ; try++ {
		begin()
		err := s.db.query(ctx, statement, args, how{pinned: s.pinned.Load(), urgent: urgent}, row)
		if wasIdle(err) && idle < idleClosed { //mutant:pg-closed-as-idle-counts
			idle++
			try--
		}
		if err == nil || try == repeats || ctx.Err() != nil || !s.notApplied(err) {
			return err
		}
	}
}

// notApplied reports whether a statement certainly did nothing and may be sent again at once.
func (s *Store) notApplied(err error) bool {
	var none notRun
	if errors.As(err, &none) || pgconn.SafeToRetry(err) {
		return true
	}
	switch code(err) {
	case "40001":
		// It ran above READ COMMITTED, by the default of this user or database.
		s.pinned.Store(true)
		return true
	case "40P01": // a deadlock
		return true
	}
	return wasIdle(err)
}

// wasIdle reports whether the server had closed the connection of a statement for being idle.
func wasIdle(err error) bool { return code(err) == "57P05" }

// undone reports whether a failed statement certainly did nothing, and will do nothing.
func (s *Store) undone(err error) bool {
	var none notSent
	var closed *pgconn.ConnectError
	return store.Definite(err) || s.notApplied(err) || errors.As(err, &none) || errors.As(err, &closed) //mutant:pg-unsent-ask-is-awaited
}

// code returns the server's code of an error, or "" if the error is not of the server.
func code(err error) string { return store.SQLState(err) }

func isNoTable(err error) bool { return code(err) == "42P01" }

func (s *Store) where() string { return s.schema + "." + s.table }

// create creates the tables. Another process may be creating them too.
func (s *Store) create(ctx context.Context) error {
	for _, table := range []string{s.do.createSessions, s.do.create} { // a table of names never exists without one for its sessions
		var err error
		for range repeats {
			err = s.send(ctx, table, nil, func() {}, nil)
			if c := code(err); c != "23505" && c != "42P07" && c != "42710" {
				break
			}
		}
		if err != nil {
			return s.failed("make the table "+s.where()+" or that of its sessions", err)
		}
	}
	return nil
}

// failed turns an error of the driver or the server into one for users.
func (s *Store) failed(what string, err error) error {
	say := func(kind error, advice string) error {
		return fmt.Errorf("%w: %s on %s: %s: %w", kind, what, s.address, advice, err)
	}
	switch code(err) {
	case "42501":
		return fmt.Errorf("%w: %s on %s: %w", store.ErrDenied, what, s.address, err)
	case "28000", "28P01":
		return say(store.ErrDenied, "the server does not let this user in")
	case "3F000":
		return say(store.ErrInvalid, "there is no schema "+s.schema+": create it, or name another")
	case "3D000":
		return say(store.ErrInvalid, "there is no such database")
	case "42703", "42804", "42883", "42809", "42846", "42P10":
		return say(store.ErrCorrupt, "the table "+s.where()+" is not one of holdfast and was not changed: name another")
	case "25006":
		return say(store.ErrUnavailable, "this server, or this connection, is read-only: locks need the primary (target_session_attrs=read-write finds it among several hosts)")
	case "42601", "0A000":
		return say(store.ErrUnsupported, "PostgreSQL 14 or newer is needed")
	}
	return fmt.Errorf("%w: %s on %s: %w", store.ErrUnavailable, what, s.address, err)
}

// bounds are the limits of the stored form.
var bounds = store.Bounds{Min: minTTL, Max: maxTTL, On: "PostgreSQL"}
