package mysqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/store"
)

// Numbers of errors, the same on MariaDB and MySQL.
const (
	recordChanged   = 1020
	databaseDenied  = 1044
	loginDenied     = 1045
	noDatabase      = 1046
	unknownDatabase = 1049
	badColumn       = 1054
	tableDenied     = 1142
	columnDenied    = 1143
	noSuchTable     = 1146
	lockWaitTimeout = 1205
	deadlock        = 1213
	rightNeeded     = 1227
	readOnlyServer  = 1290
	noDefault       = 1364
	statementBinlog = 1665
	loginDenied2    = 1698
	readOnlySession = 1792
	readOnlyMode    = 1836
	readOnlyInnoDB  = 1874
)

// is reports whether err is the server's, with one of these numbers.
func is(err error, numbers ...uint16) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && slices.Contains(numbers, e.Number)
}

// failed makes an error of the driver or the server one for people. what was
// tried names the name. Errors of package store are that already.
func (s *Store) failed(what string, err error) error {
	switch {
	case store.Definite(err):
		return err
	case is(err, databaseDenied, loginDenied, loginDenied2, tableDenied, columnDenied, rightNeeded):
		return fmt.Errorf("%w: %s on %s: %w (the package comment of mysqlstore lists the rights that suffice)", store.ErrDenied, what, s.address, err)
	case is(err, noDatabase, unknownDatabase):
		return fmt.Errorf("%w: %s on %s: %w: make the database, or name another", store.ErrInvalid, what, s.address, err)
	case is(err, badColumn, noDefault):
		return fmt.Errorf("%w: %s on %s: %w: the table is not of this holdfast", store.ErrCorrupt, what, s.address, err)
	case is(err, readOnlyServer, readOnlySession, readOnlyMode, readOnlyInnoDB):
		return fmt.Errorf("%w: %s on %s: it is read-only, as a replica is: locks need the primary: %w", store.ErrUnavailable, what, s.address, err)
	case is(err, statementBinlog):
		return fmt.Errorf("%w: %s on %s: %w: set binlog_format to ROW or MIXED, or the isolation level of the connection to REPEATABLE READ", store.ErrUnsupported, what, s.address, err)
	}
	return fmt.Errorf("%w: %s on %s: %w", store.ErrUnavailable, what, s.address, err)
}

func (s *Store) corrupt(name string) error {
	return fmt.Errorf("%w: %s is not of holdfast, or is damaged: it was left alone; delete it if nobody needs it", store.ErrCorrupt, s.where(name))
}

func (s *Store) noCommit() error {
	return fmt.Errorf("%w: %s: the connection has autocommit=0: what is written would not be there for others; set autocommit=1 for the connections that locks use", store.ErrUnsupported, s.address)
}

// within is a context that ends when the nth part of what is left of ctx is
// over.
func within(ctx context.Context, n time.Duration) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(end)/n)
	}
	return context.WithCancel(ctx)
}

// bounds are what the stored form has room for.
var bounds = store.Bounds{Min: minTTL, Max: maxTTL, On: "MySQL"}
