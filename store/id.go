package store

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// A Process is the first half of the ids of all claims of one engine. Stores send
// notifications to it. The zero Process belongs to no process: a hold with an id of
// it has been detached from its process, and ends only with its TTL.
type Process [8]byte

// String is the process in lower-case hex.
func (p Process) String() string { return hex.EncodeToString(p[:]) }

// NewProcess returns a random Process.
func NewProcess() (p Process) {
	rand.Read(p[:]) // never fails
	return p
}

// An ID names a claim: eight bytes of its process, eight of its own, both
// random and never used again.
type ID [16]byte

// NewID returns a random ID of the process.
func (p Process) NewID() (id ID) {
	copy(id[:8], p[:])
	rand.Read(id[8:]) // never fails
	return id
}

// Process is the process that the claim belongs to.
func (id ID) Process() Process { return Process(id[:8]) }

// String is the id in lower-case hex, 32 characters.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText returns the id in lower-case hex, as [ID.String] does, so that
// encoding/json writes an ID as that text. [ParseID] reads it.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// ParseID reads what [ID.String] wrote. The error matches ErrInvalid.
func ParseID(s string) (ID, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(ID{}) {
		return ID{}, fmt.Errorf("%w: id %q: want 32 hexadecimal digits", ErrInvalid, s)
	}
	return ID(b), nil
}
