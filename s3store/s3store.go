// Package s3store stores locks in an S3 bucket, by conditional writes. It is a backend of package
// [github.com/holdfast-go/holdfast/store/record]. It is experimental: it was not tested on Amazon's
// S3.
//
// # Stored form
//
// Objects of one bucket, below a prefix ("holdfast/" unless [Options] say otherwise):
//
//	n/NAME.lock         a name: a line of JSON, and then its record, as package store/record writes it
//	j/NAME.lock!N-KEY   notes of waiters that are not in the record yet
//	s/SESSION           a session: its TTL, and how often it was renewed
//	c/SESSION           how often a session was called
//	t/TEXT              a trial, for a moment
//	w/sweep             when was last swept
//	s/keep and so on    nothing: it keeps a directory, where the server is not Amazon's
//
// A NAME is written as in the query of a URL, with %20 for a blank. If that is longer than 180
// bytes, it is the first 100 and a hash. The line has v, the version of the form; name, in base64;
// rev, a new random text for each write, so that no two have the same ETag; idle; and taken, the
// notes that are in the record and may still be below j/. The process that has written a record
// deletes them. A session is deleted by the process that ends it, or that finds it expired. What
// crashed processes have left is deleted a day later: once an hour one of all processes lists the
// keys with the prefix.
//
// # Guarantees
//
// Order, slots, upgrades, blocks of tokens, hand-over to another process, and match by token, as
// the contract in package [github.com/holdfast-go/holdfast/store] says. S3 has no notifications:
// waiters poll, with growing pauses.
//
// Minimum hold and lock delay use the server's time. An answer has it in whole seconds and may be
// two seconds old, and the clocks of the server's machines may differ by a second. So three seconds
// are added to each. Neither ends early, and both may end six seconds late. A server that is
// stopped for longer, and makes a new Date each second, returns an older one for a moment: what is
// granted then may end early by as much.
//
// A record is written by a PutObject with If-Match of the ETag that was read, or with If-None-Match
// if there was no object. A claim whose write is refused leaves a note, an object of its own that
// conflicts with no other write. Each request is sent once, whatever the client's settings: package
// store/record resolves unanswered ones.
//
// A process has one session for each TTL that its claims have, and one of ten seconds for its
// waiters. It renews a session once for all of its claims, by a write that depends on the previous
// one. S3 has no TTLs for objects. So a process that finds an entry in a record reads the entry's
// session, and judges it by the server's time: the Last-Modified of the session, and the Date of
// the answer. It need not have seen the session before: a process that tries once and ends, for
// example from cron, gets what a dead process held as soon as the TTL has passed. A process that
// finds a session expired closes it before anyone is granted what it kept, by a write that is
// refused if the session was renewed meanwhile. Both times are cut to the second. So TTLs are whole
// seconds, the least is five, and a holder counts three seconds less than its TTL: one for each
// time, and one for the clocks of the many machines that answer for S3, which must not differ by
// more.
//
// A server whose answers lack one of these times works, too. There a session has expired once a
// process has seen it unchanged for its TTL, on its own clock. So the try of a process that has not
// seen the holder alive, for example from cron, watches until it has: usually for a third of the
// holder's TTL. If the holder has died, the try takes the whole TTL and is then granted the name.
// Without Date, a minimum hold and a lock delay are refused, and so is each write of a name that
// has one. Nothing is swept: what crashed processes leave stays until the name is used.
//
// Tokens of a name increase while its object exists, and after that as long as the server's clock
// is not behind the newest one.
//
// # Requirements
//
// S3, or a server that speaks its protocol and has conditional writes: Amazon's has had them since
// November 2024. Many other servers ignore the conditions, and would grant a name twice. So a
// process makes a trial before its first write, and so does holdfast doctor: of four simultaneous
// writers one must win, each write whose condition is false must fail, and a read must show the
// newest write: no cache may be between. A server that fails the trial is refused with an error that
// says so. A trial cannot show whether that is true through a crash, or between several machines of
// the server.
//
// The bucket must exist. It must not have versioning, and never have had it: each renewal would be
// kept forever. No lifecycle rule may delete objects with the prefix, because that could be a held
// lock. The answers to the trial show both, and such a bucket is refused; holdfast doctor also
// reads the rules, if the user may. Do not write to a replica or a copy of the bucket: a lock is in
// one bucket. Directory buckets (S3 Express) and multi-region access points are not supported:
// neither was tried.
//
// The object of a name that was idle for a day is deleted, by a conditional delete, which Amazon's
// S3 does atomically. For other servers that is unknown (versitygw 1.8 does it in two steps), so
// there such objects stay, about 100 bytes each.
//
// A server that keeps objects as files may say that it has written an object that then does not
// exist, if it deletes the directory with the last object in it at the same time: versitygw 1.8
// does so now and then. The objects called keep ensure that no directory is ever empty. Do not
// delete them.
//
// It was tested on versitygw 1.8, which keeps objects in files; not on Amazon's S3 itself.
//
// # Rights
//
// This policy suffices, if you replace BUCKET and PREFIX (for example holdfast/):
//
//	{"Version": "2012-10-17", "Statement": [
//	  {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], "Resource": "arn:aws:s3:::BUCKET/PREFIX*"},
//	  {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::BUCKET"}]}
//
// Without s3:ListBucket, S3 answers 403 for a missing object. Without s3:DeleteObject, locks work at
// first: but sessions and notes stay, and the object of a name grows with each claim that begins to
// wait. So holdfast doctor tries a delete, and warns. s3:GetLifecycleConfiguration on the bucket lets
// it read the rules.
package s3store

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/internal/awsconn"
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

// A Store stores locks in an S3 bucket. It is a [store.Store], and also a Poller, an Inspector and
// a Checker. Its methods are safe for concurrent use.
type Store struct {
	*record.Store
	b *backend
}

// A backend connects package store/record to S3.
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

// New returns a Store in the bucket, which must exist. The client stays yours. Its settings for
// retries and checksums do not matter. New does no I/O. The error matches store.ErrInvalid.
func New(client *s3.Client, bucket string, o *Options) (*Store, error) {
	b, err := newBackend(client, bucket, o)
	if err != nil {
		return nil, err
	}
	return storeOf(b), nil
}

func storeOf(b *backend) *Store { return &Store{record.New(b), b} }

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func newBackend(client *s3.Client, bucket string, o *Options) (*backend, error) {
	if o == nil {
		o = &Options{}
	}
	prefix, err := object.PrefixOf(o.Prefix, DefaultPrefix)
	switch {
	case err != nil:
		return nil, err
	case client == nil:
		return nil, fmt.Errorf("%w: the S3 client is nil", store.ErrInvalid)
	case len(bucket) < 3 || len(bucket) > 255 || strings.Trim(bucket, letters+"-_.") != "":
		return nil, fmt.Errorf("%w: %.80q is no bucket of S3: want letters, digits, and -_. alone", store.ErrInvalid, bucket)
	}
	address := "S3, bucket " + bucket + ", prefix " + prefix
	if host := awsconn.At(client.Options().BaseEndpoint); host != "" {
		address = "S3 at " + host + strings.TrimPrefix(address, "S3")
	}
	server := &server{client: client, bucket: bucket, address: address}
	b := &backend{object.New(server, address, prefix), server, nil}
	b.Atomic = atomically
	return b, nil
}

// atomically reports whether the server compares and deletes in one step. Amazon documents that for
// S3; for other servers it is unknown.
func atomically(server string) bool { return server == "AmazonS3" }

// Describe implements [record.Backend].
func (b *backend) Describe() store.Description {
	return store.Description{
		Store:  b.Address,
		Tokens: "when the name's object is lost and the server's clock is behind the newest token",
		Loses: "nothing that was answered; a server whose clock is set forward, or machines of it whose clocks are more than a second apart, " +
			"can end a lease early for others",
		Forgets: []store.Accident{store.AccidentWipe, store.AccidentClockStep},
		Unsure:  "if the server's answers tell no time (Date, Last-Modified): holders are watched then by the clock of who asks",
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
