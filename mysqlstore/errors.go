package mysqlstore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/store"
)

// Error numbers, the same on MariaDB and MySQL.
const (
	recordChanged   = 1020
	databaseDenied  = 1044
	loginDenied     = 1045
	noDatabase      = 1046
	badNull         = 1048
	unknownDatabase = 1049
	badColumn       = 1054
	duplicate       = 1062
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

// is reports whether err is a server error with one of these numbers.
func is(err error, numbers ...uint16) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && slices.Contains(numbers, e.Number)
}

// failed explains an error of the driver or the server. Errors of package store stay as they are.
func (b *backend) failed(err error) error {
	switch {
	case err == nil || store.Definite(err):
		return err
	case is(err, noSuchTable, badColumn, noDefault):
		b.Checked.Done.Store(false) // the tables have changed: check them again
	}
	switch {
	case is(err, databaseDenied, loginDenied, loginDenied2, tableDenied, columnDenied, rightNeeded):
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	case is(err, noDatabase, unknownDatabase):
		return fmt.Errorf("%w: %w: create the database, or name another", store.ErrInvalid, err)
	case is(err, badColumn, noDefault):
		return fmt.Errorf("%w: %w: the table was not made by this version of holdfast", store.ErrCorrupt, err)
	case is(err, readOnlyServer, readOnlySession, readOnlyMode, readOnlyInnoDB):
		return fmt.Errorf("it is read-only, as a replica is: locks need the primary: %w", err)
	case is(err, statementBinlog):
		return fmt.Errorf("%w: %w: set binlog_format to ROW or MIXED, or the isolation level of the connection to REPEATABLE READ", store.ErrUnsupported, err)
	}
	return err
}
