package mongostore

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/store"
)

// Codes of the server's errors.
const (
	badValue             = 2
	failedToParse        = 9
	unauthorized         = 13
	authenticationFailed = 18
	illegalOperation     = 20
	invalidOptions       = 72
	invalidNamespace     = 73
	invalidOperator      = 168
	duplicateKey         = 11000
	tooLarge             = 17419
	undefinedVariable    = 17276
	unknownStage         = 40324
	noChangeStreams      = 40573
	noVariable           = 51144
)

// hasCode reports whether the server answered a command with one of these
// codes. A write concern error is none: then the write was done.
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

// failed makes an error of the driver or the server one for people. what was
// tried names the name. Errors of package store are that already.
func (s *Store) failed(what string, err error) error {
	if strings.Contains(err.Error(), "connection refused") && !errors.Is(err, syscall.ECONNREFUSED) {
		err = fmt.Errorf("%w: %w", syscall.ECONNREFUSED, err) // the driver keeps only the text of that
	}
	tell := func(kind error, advice string) error {
		return fmt.Errorf("%w: %s on %s: %w%s", kind, what, s.address, err, advice)
	}
	switch {
	case store.Definite(err):
		return err
	case hasCode(err, unauthorized, authenticationFailed):
		return tell(store.ErrDenied, " (the package comment of mongostore lists the rights that suffice)")
	case hasCode(err, badValue) && strings.Contains(err.Error(), "'j'"):
		return tell(store.ErrUnsupported, ": the server keeps no journal: use the storage engine WiredTiger")
	case hasCode(err, failedToParse, invalidOptions, invalidOperator, unknownStage):
		return tell(store.ErrUnsupported, ": the server does not understand what locks need: use MongoDB 4.4 or newer")
	case hasCode(err, noChangeStreams):
		return tell(store.ErrUnsupported, ": a standalone server wakes nobody: waiters look now and then")
	case hasCode(err, illegalOperation):
		return tell(store.ErrUnsupported, "")
	case hasCode(err, invalidNamespace):
		return tell(store.ErrInvalid, ": name another database or collection")
	case hasCode(err, duplicateKey):
		return tell(store.ErrUnavailable, ": the collection has a collation or another unique index: locks need one without")
	case hasCode(err, tooLarge):
		return tell(store.ErrUnavailable, ": too many claims of one name")
	}
	return tell(store.ErrUnavailable, "")
}

// What follows finds what the document has no room for, before any I/O.

func checkNamespace(db, name string) error {
	bad := strings.ContainsAny(name, "$\x00") || strings.HasPrefix(name, "system.") || strings.HasPrefix(name, ".") || !utf8.ValidString(name)
	if len(db)+1+len(name) > 120 || bad { // the limit of 4.2 and of older feature versions
		return fmt.Errorf("%w: the collection %.40q: want no $ and no zero byte in it, no system. in front, and with the database at most 120 bytes", store.ErrInvalid, name)
	}
	return nil
}

var bounds = store.Bounds{Min: minTTL, Max: maxTTL, On: "MongoDB"}

func checkName(name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%w: the name %.40q is no UTF-8, as a string of MongoDB must be", store.ErrInvalid, name)
	}
	return nil
}

func checkOwner(name, owner string) error {
	if !utf8.ValidString(owner) {
		return fmt.Errorf("%w: %q: the owner is no UTF-8, as a string of MongoDB must be", store.ErrInvalid, name)
	}
	return nil
}

func checkClaim(c *store.Claim) error {
	return cmp.Or(bounds.CheckClaim(c), checkName(c.Name), checkOwner(c.Name, c.Owner))
}

func checkRenewal(h *store.Hold) error {
	return cmp.Or(bounds.CheckRenewal(h), checkName(h.Name), checkOwner(h.Name, h.Owner))
}
