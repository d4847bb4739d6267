// Package azblobstore stores locks in a container of Azure Blob Storage, by conditional writes. It is
// a backend of package [github.com/holdfast-go/holdfast/store/record]. It is experimental: it was
// tested only on Azurite, Microsoft's emulator, not on Azure.
//
// # Stored form
//
// Block blobs of one container, below a prefix ("holdfast/" unless [Options] say otherwise):
//
//	n/NAME.lock         a name: a line of JSON, and then its record, as package store/record writes it
//	j/NAME.lock!N-KEY   notes of waiters that are not in the record yet
//	s/SESSION           a session: its TTL, and how often it was renewed
//	c/SESSION           how often a session was called
//	t/TEXT              a trial, for a moment
//	w/sweep             how far the last sweep got
//	s/keep and so on    nothing: other servers than Azure may need them
//
// It is the form of package [github.com/holdfast-go/holdfast/s3store], whose comment says more about
// it.
//
// # Guarantees
//
// Order, slots, upgrades, blocks of tokens, hand-over to another process, and match by token, as
// the contract in package [github.com/holdfast-go/holdfast/store] says. Waiters poll, with growing
// pauses.
//
// An answered write is stored. A record is written with If-Match of the ETag that was read, or with
// If-None-Match if there was no blob. A claim whose write is refused leaves a note, a blob of its
// own that conflicts with no other write. Each request is sent once, whatever the client's settings.
//
// A process that finds an entry in a record reads the entry's session, and judges it by the server's
// time: the Last-Modified of the session, and the Date of the answer. Both are whole seconds. TTLs
// are whole seconds, and the least is five. A holder counts three seconds less than its TTL: one for
// each time, and one for the clocks of the many machines that answer for Azure, which must not
// differ by more. A process that finds a session expired closes it before anyone is granted what it
// kept, by a write that is refused if the session was renewed meanwhile.
//
// A server whose answers lack one of these times works, too. There a session has expired once a
// process has seen it unchanged for its TTL, on its own clock. So a try can take as long as the TTL
// of the holder. Without Date, a minimum hold and a lock delay are refused, and nothing is swept.
//
// Minimum hold and lock delay use the server's time. Three seconds are added to each. Neither ends
// early, and both may end six seconds late.
//
// Tokens of a name increase while its blob exists, and after that as long as the server's clock is
// not behind the newest one.
//
// # Requirements
//
// The container must exist, in a storage account whose blobs have no versions: each renewal would be
// kept. The trial refuses an account with versioning. Turn off soft delete for blobs in the account,
// too, as it keeps each overwritten blob for days, at your cost; nothing shows it to the user that
// locks need. No lifecycle rule and no immutability policy may apply to the prefix. Use the primary
// endpoint of an account: a failover of a geo-redundant account loses its newest writes, so two can
// hold a name, and tokens can be repeated.
//
// A process makes a trial before its first write, and so does holdfast doctor: of four simultaneous
// writers one must win, each write whose condition is false must fail, and a read must show the
// newest write: no cache may be between.
//
// # Rights
//
// The role Storage Blob Data Contributor, with the container as its scope, suffices. A role with
// less:
//
//	{"Actions": [], "DataActions": [
//	  "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read",
//	  "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write",
//	  "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/add/action",
//	  "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/delete"]}
//
// Without the last one, locks work at first: but sessions and notes stay, and the blob of a name
// grows with each claim that begins to wait. So holdfast doctor tries a delete, and warns.
package azblobstore

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// DefaultPrefix is the default of Options.Prefix.
const DefaultPrefix = "holdfast/"

// Options configure a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Prefix is the beginning of all keys: letters, digits, and -_./ with a slash at the end, which
	// is added if it is missing; DefaultPrefix if empty. Stores with different prefixes are
	// independent, unless one prefix begins with the other.
	Prefix string
}

// A Store stores locks in a container. It is a [store.Store], and also a Poller, an Inspector and a
// Checker. Its methods are safe for concurrent use.
type Store struct {
	*record.Store
	b *backend
}

// A backend connects package store/record to a container.
type backend struct {
	*object.Backend
	server *server
	close  func() // closes what Open has opened; nil: nothing
}

var _ interface {
	record.Backend
	record.Peeker
	record.Preparer
	record.Sweeper
} = (*backend)(nil)

// New returns a Store in the container of the client, which must exist. The client stays yours. Its
// settings for retries do not matter. New does no I/O. The error matches store.ErrInvalid.
func New(client *container.Client, o *Options) (*Store, error) {
	b, err := newBackend(client, o)
	if err != nil {
		return nil, err
	}
	return storeOf(b), nil
}

func storeOf(b *backend) *Store { return &Store{record.New(b), b} }

func newBackend(client *container.Client, o *Options) (*backend, error) {
	if o == nil {
		o = &Options{}
	}
	prefix, err := object.PrefixOf(o.Prefix, DefaultPrefix)
	switch {
	case err != nil:
		return nil, err
	case client == nil:
		return nil, fmt.Errorf("%w: the Azure Blob client is nil", store.ErrInvalid)
	}
	at, err := url.Parse(client.URL())
	if err != nil {
		return nil, fmt.Errorf("%w: the address of the container cannot be read", store.ErrInvalid) // it may have a signature
	}
	s := &server{client: client, address: "Azure Blob at " + at.Host + ", container " + strings.Trim(at.Path, "/") + ", prefix " + strings.TrimSuffix(prefix, "/")}
	b := &backend{Backend: object.New(s, s.address, prefix), server: s}
	b.Atomic = func(string) bool { return true }
	return b, nil
}

// Describe implements [record.Backend].
func (b *backend) Describe() store.Description {
	return store.Description{
		Store:  b.Address,
		Tokens: "when the name's blob is lost and the server's clock is behind the newest token",
		Loses: "nothing that was answered, except by a failover of a geo-redundant account; a server whose clock is set forward, or machines of it whose clocks are more than a second apart, " +
			"can end a lease early for others",
		Forgets: []store.Accident{store.AccidentWipe, store.AccidentFailOver, store.AccidentClockStep},
		Unsure:  "if the server's answers show no time (Date, Last-Modified): holders are watched then by the clock of the process that asks",
		Crash:   store.CrashTTL,
	}
}

// Close implements [record.Backend]. The client of New stays open.
func (b *backend) Close() error {
	err := b.Backend.Close()
	if b.close != nil {
		b.close()
	}
	return err
}
