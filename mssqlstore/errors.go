package mssqlstore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/microsoft/go-mssqldb"

	"github.com/holdfast-go/holdfast/store"
)

// Error numbers from the manual ("Database engine events and errors").
const (
	badColumn       = 207
	noSuchTable     = 208
	objectDenied    = 229
	columnDenied    = 230
	createDenied    = 262
	noDefault       = 515
	databaseDenied  = 916
	deadlock        = 1205
	lockTimeout     = 1222
	duplicateRow    = 2601
	duplicateKey    = 2627
	alreadyThere    = 2714
	schemaDenied    = 2760
	readOnly        = 3906
	updateConflict  = 3960
	cannotOpen      = 4060 // also while the database starts
	loginDenied     = 18456
	loginDenied2    = 18452
	openTransaction = 51000 // raised by sql/head.sql of this package
)

// is reports whether err is a server error with one of these numbers.
func is(err error, numbers ...int32) bool {
	var e mssql.Error
	if !errors.As(err, &e) {
		return false
	}
	return slices.Contains(numbers, e.Number) || slices.ContainsFunc(e.All, func(one mssql.Error) bool { return slices.Contains(numbers, one.Number) })
}

// failed explains an error of the driver or the server. Errors of package store stay as they are.
func (b *backend) failed(err error) error {
	switch {
	case err == nil || store.Definite(err):
		return err
	case is(err, noSuchTable, badColumn, noDefault):
		b.Checked.Done.Store(false) // the table has changed: check it again
	}
	switch {
	case is(err, cannotOpen): // 18456 follows it, which then is not definite
		return fmt.Errorf("the database is not there, or starts, or this login may not use it: %w", err)
	case is(err, loginDenied, loginDenied2, databaseDenied, objectDenied, columnDenied, createDenied, schemaDenied):
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	case is(err, badColumn, noDefault):
		return fmt.Errorf("%w: %w: the table was not made by this version of holdfast", store.ErrCorrupt, err)
	case is(err, readOnly):
		return fmt.Errorf("it is read-only, as a replica is: locks need the primary: %w", err)
	case is(err, openTransaction):
		return fmt.Errorf("%w: %w: what is written there would not be there for others; give the locks connections that no transaction is left open on", store.ErrUnsupported, err)
	case is(err, lockTimeout):
		return fmt.Errorf("somebody else has its row locked: %w", err)
	}
	return err
}
