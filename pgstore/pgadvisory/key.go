package pgadvisory

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// A Key is the key of an advisory lock: a number of 64 bits, or a pair of 32 bits each. PostgreSQL
// distinguishes the two even if the bits are the same. Two Keys are the same lock if they are
// equal.
type Key struct {
	n    int64 // of a pair: the first in the upper half
	pair bool
}

// keyPrefix begins a name that states its key.
const keyPrefix = "advisory:"

// KeyOf returns the key of the advisory lock of a name, in session and in transaction mode.
//
// "advisory:1234" is the number 1234, and "advisory:12,34" the pair of 12 and 34. Use such names
// for locks that programs without holdfast take as well, for example by pg_advisory_lock(1234). The
// numbers are decimal, as PostgreSQL writes them; anything else after "advisory:" is a
// store.ErrInvalid.
//
// Any other name is hashed to a number: the first eight bytes of its SHA-256, big-endian. In SQL:
//
//	('x' || left(encode(sha256(convert_to('name', 'UTF8')), 'hex'), 16))::bit(64)::bigint
//
// This will not change. Among a million hashed names, the chance that two are the same lock is one
// in thirty-seven million.
func KeyOf(name string) (Key, error) {
	if err := store.CheckName(name); err != nil {
		return Key{}, err
	}
	text, ok := strings.CutPrefix(name, keyPrefix)
	if !ok {
		sum := sha256.Sum256([]byte(name)) //mutant:pg-key-of-name
		return Key{n: int64(binary.BigEndian.Uint64(sum[:]))}, nil
	}
	var k Key
	first, second, pair := strings.Cut(text, ",")
	if pair {
		a, err1 := strconv.ParseInt(first, 10, 32)
		b, err2 := strconv.ParseInt(second, 10, 32)
		if err1 == nil && err2 == nil {
			k = Key{a<<32 | int64(uint32(b)), true}
		}
	} else if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		k = Key{n: n}
	}
	if k.String() != name { // also rejects numbers that are written in another way //mutant:pg-key-written-one-way
		return Key{}, fmt.Errorf("%w: the name %.80q: want advisory:N, a number of 64 bits, or advisory:N,M, two of 32, in plain decimal", store.ErrInvalid, name)
	}
	return k, nil
}

// String returns the name that states the key, such as "advisory:1234".
func (k Key) String() string {
	a, b := k.halves()
	if k.pair {
		return fmt.Sprintf("%s%d,%d", keyPrefix, int32(a), int32(b))
	}
	return keyPrefix + strconv.FormatInt(k.n, 10)
}

// halves returns the key as pg_locks shows it: classid and objid.
func (k Key) halves() (high, low uint32) { return uint32(uint64(k.n) >> 32), uint32(k.n) }

// args returns the arguments of PostgreSQL's lock functions, as text.
func (k Key) args() [][]byte {
	if k.pair {
		a, b := k.halves()
		return [][]byte{[]byte(strconv.Itoa(int(int32(a)))), []byte(strconv.Itoa(int(int32(b))))}
	}
	return [][]byte{[]byte(strconv.FormatInt(k.n, 10))}
}

// params returns the parameters for args in a statement.
func (k Key) params() string {
	if k.pair {
		return "$1::int, $2::int"
	}
	return "$1::bigint"
}
