package mongostore

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/store"
)

// Error codes of the server.
const (
	badValue             = 2
	failedToParse        = 9
	unauthorized         = 13
	authenticationFailed = 18
	illegalOperation     = 20
	commandNotFound      = 59
	invalidOptions       = 72
	invalidNamespace     = 73
	notSupported         = 115
	duplicateKey         = 11000
	tooLarge             = 17419
	unknownStage         = 40324
	noChangeStreams      = 40573
)

// hasCode reports whether the server answered a command with one of these codes. A write concern error does not count,
// because the write was done.
func hasCode(err error, codes ...int) bool {
	var e mongo.CommandError
	if !errors.As(err, &e) {
		return false
	}
	for _, code := range codes {
		if e.HasErrorCode(code) {
			return true
		}
	}
	return false
}

// failed turns an error of the driver or the server into one of package store where its kind is known, and explains it.
func (b *backend) failed(err error) error {
	tell := func(kind error, advice string) error { return fmt.Errorf("%w: %s: %w%s", kind, b.address, err, advice) }
	switch {
	case err == nil || store.Definite(err):
		return err
	case strings.Contains(err.Error(), "connection refused") && !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %w", syscall.ECONNREFUSED, err) // the driver keeps only its text
	case hasCode(err, unauthorized, authenticationFailed):
		return tell(store.ErrDenied, "")
	case hasCode(err, badValue) && strings.Contains(err.Error(), "'j'"):
		return tell(store.ErrUnsupported, ": the server keeps no journal: use the storage engine WiredTiger")
	case hasCode(err, noChangeStreams, notSupported, unknownStage):
		return tell(store.ErrUnsupported, ": a server without change streams, as a standalone, wakes nobody: waiters look now and then")
	case hasCode(err, failedToParse, invalidOptions, commandNotFound):
		return tell(store.ErrUnsupported, ": the server does not understand what locks need: use MongoDB 4.4 or newer")
	case hasCode(err, illegalOperation):
		return tell(store.ErrUnsupported, "")
	case hasCode(err, invalidNamespace):
		return tell(store.ErrInvalid, ": name another database or collection")
	case hasCode(err, duplicateKey):
		return fmt.Errorf("%w: the collection has another unique index: locks need one without", err)
	case hasCode(err, tooLarge):
		return fmt.Errorf("%w: too many wait for one name", err)
	}
	return err
}

func checkNamespace(db, name string) error {
	bad := strings.ContainsAny(name, "$\x00") || strings.HasPrefix(name, "system.") || strings.HasPrefix(name, ".") || !utf8.ValidString(name)
	if len(db)+1+len(name) > 120 || bad { // the limit of 4.2 and of older feature versions
		return fmt.Errorf("%w: the collection %.40q: want no $ and no zero byte in it, no system. in front, and with the database at most 120 bytes", store.ErrInvalid, name)
	}
	return nil
}
