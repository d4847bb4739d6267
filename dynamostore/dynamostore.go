// Package dynamostore stores locks in a table of Amazon DynamoDB, by conditional writes, one item
// for each name. It is a backend of package [github.com/holdfast-go/holdfast/store/record]. It is
// experimental: it was tested only on dynalite, a server by others that speaks DynamoDB's protocol.
//
// # Stored form
//
// Items of one table. Its partition key is id, of type B (binary). If [Options] have a prefix, each
// id begins with that and a slash. Then it is:
//
//	n/NAME       a name: v, name, rev, data, inbox, at; also idle, if only its newest token is left
//	s/SESSION    a session of a process: rev, body, at
//	c/SESSION    how often another process called that session: rev, body, at
//	t/TEXT       a trial, for a moment
//	w/sweep      how far the last sweep got
//
// v is the version of the form. name is NAME as text, for people who read the table; it is missing
// if NAME is not UTF-8. data is the record, as package store/record writes it. inbox is a list of
// claims that are not in the record yet. rev is a new random text for each write of data or body.
// at is the server's time of that write, in microseconds since 1970, or earlier: Guarantees has the
// bounds.
//
// # Guarantees
//
// Order, slots, upgrades, blocks of tokens, hand-over to another process, and match by token, as
// the contract in package [github.com/holdfast-go/holdfast/store] says. DynamoDB has no
// notifications that locks can use: waiters poll, with growing pauses.
//
// An answered write is in the table. Each write depends on the rev that was read, or appends to the
// inbox. Each read is strongly consistent.
//
// A process that finds an entry in a record reads the entry's session, and judges it by the
// server's time: the Date of the answer. An item does not show when it was written. So the writer
// stores the server's time in it, as the Dates of earlier answers show it; between answers the local
// clock measures how time passes. The Date of the write's own answer shows how early that time was.
// If it is more than two seconds before that Date, as after a pause of a virtual machine that its
// clock does not count, the session is written again. A Date itself is at most two seconds behind
// the server's clock: it is truncated to the second, and some servers make a new one only once a
// second. So the time in a session is at most four seconds earlier than its write. The time in the
// item of a name has no such limit: after such a pause a sweep may delete an idle item early.
//
// A process that finds a session expired closes it before anyone is granted what it kept, by a
// write that is refused if the session was renewed meanwhile.
//
// TTLs are whole seconds, and the least is eight. A holder counts six seconds less than its TTL:
// four for the time in its session, one because a session expires that long before its TTL, and one
// for the clocks of the many machines that answer for DynamoDB. These must not differ by more than a
// second.
//
// Minimum hold and lock delay use the server's time. An answer has it in whole seconds and may be
// two seconds old, and the clocks of the server's machines may differ by a second. So three seconds
// are added to each. Neither ends early, and both may end six seconds late.
//
// Tokens of a name increase while its item exists, and after that as long as the server's clock is
// not behind the newest one.
//
// # Requirements
//
// A table in one region, or one that is strongly consistent in several (MRSC). The regions of any
// other global table accept writes that undo each other, so two processes could hold a name.
// holdfast doctor checks this, if the user may read it. Do not use DAX: it answers reads from a
// cache. An answer must have a Date, and come within two seconds: no lease begins, and none is
// renewed, by an answer that cannot show the server's time well enough.
//
// To create the table:
//
//	aws dynamodb create-table --table-name holdfast --billing-mode PAY_PER_REQUEST \
//	  --attribute-definitions AttributeName=id,AttributeType=B --key-schema AttributeName=id,KeyType=HASH
//
// Servers by others that speak the protocol may ignore conditions, and would grant a name twice. So
// a process makes a trial before its first write, and so does holdfast doctor: of four simultaneous
// writers one must win, and each write whose condition is false must fail.
//
// A sweep deletes what crashed processes have left, and the item of each name that was idle for a
// day. It reads the whole table: one read unit for each 4 KiB of it. One of all processes sweeps
// once an hour. Use a separate table for locks.
//
// # Rights
//
// This policy suffices, if you replace REGION, ACCOUNT and TABLE:
//
//	{"Version": "2012-10-17", "Statement": [
//	  {"Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:Scan"],
//	   "Resource": "arn:aws:dynamodb:REGION:ACCOUNT:table/TABLE"}]}
//
// Without dynamodb:DeleteItem, items stay: one for each name, and some for each process. So holdfast
// doctor tries a delete, and warns. dynamodb:DescribeTable, and dynamodb:DescribeGlobalTable on the
// global table of that name, let it read whether the table is global.
package dynamostore

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/internal/awsconn"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// DefaultTable is the default of Options.Table.
const DefaultTable = "holdfast"

// Options configure a Store. Nil, and zero fields, mean the defaults.
type Options struct {
	// Table is the name of the table, which must exist; DefaultTable if empty.
	Table string

	// Prefix is the beginning of all keys: at most 64 letters, digits, and -_./; none if empty.
	// Stores with different prefixes are independent, unless one prefix begins with the other.
	Prefix string
}

// A Store stores locks in a table. It is a [store.Store], and also a Poller, an Inspector and a
// Checker. Its methods are safe for concurrent use.
type Store struct {
	*record.Store
	b *backend
}

var _ interface {
	record.Backend
	record.Sweeper
} = (*backend)(nil)

// New returns a Store in the table, which must exist. The client stays yours. Its settings for
// retries do not matter. New does no I/O. The error matches store.ErrInvalid.
func New(client *dynamodb.Client, o *Options) (*Store, error) {
	b, err := newBackend(client, o)
	if err != nil {
		return nil, err
	}
	return &Store{record.New(b), b}, nil
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func newBackend(client *dynamodb.Client, o *Options) (*backend, error) {
	table, prefix := DefaultTable, ""
	if o != nil && o.Table != "" {
		table = o.Table
	}
	if o != nil && o.Prefix != "" {
		prefix = o.Prefix
	}
	switch {
	case client == nil:
		return nil, fmt.Errorf("%w: the DynamoDB client is nil", store.ErrInvalid)
	case len(table) < 3 || len(table) > 255 || strings.Trim(table, letters+"-_.") != "":
		return nil, fmt.Errorf("%w: %.80q is not the name of a DynamoDB table: want 3 to 255 of letters, digits, and the characters -_. only", store.ErrInvalid, table)
	case len(prefix) > 64 || strings.Trim(prefix, letters+"-_./") != "":
		return nil, fmt.Errorf("%w: %.80q is not a prefix of keys: want at most 64 letters, digits, and -_./", store.ErrInvalid, prefix)
	}
	address := "DynamoDB, table " + table
	if host := awsconn.At(client.Options().BaseEndpoint); host != "" {
		address = "DynamoDB at " + host + ", table " + table
	}
	if prefix != "" {
		address += ", prefix " + prefix
		prefix += "/"
	}
	server := &server{client: client, table: table, address: address}
	objects := object.NewSessions(server, address, prefix)
	objects.Atomic, objects.Late = func(string) bool { return true }, late
	return &backend{sessions: objects, objects: objects, server: server}, nil
}

// Describe implements [record.Backend].
func (b *backend) Describe() store.Description {
	return store.Description{
		Store:  b.server.address,
		Tokens: "when the name's item is lost and the server's clock is behind the newest token",
		Loses: "nothing that was answered; a server whose clock is set forward, or machines of it whose clocks are more than a second apart, " +
			"can end a lease early for others",
		Forgets: []store.Accident{store.AccidentWipe, store.AccidentClockStep},
		Crash:   store.CrashTTL,
	}
}
