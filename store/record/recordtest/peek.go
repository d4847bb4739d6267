package recordtest

import (
	"context"

	"github.com/holdfast-go/holdfast/store/record"
)

// Peeking returns the client of a server with Halves as a backend that is also a [record.Peeker].
func (c *Client) Peeking() record.Backend { return peeking{c} }

type peeking struct{ *Client }

// Peek implements [record.Peeker].
func (c peeking) Peek(ctx context.Context, name string) (record.Record, error) {
	return send(ctx, c.Client, Request{Op: OpLoad, Name: name}, func() record.Record { return c.m.load(name, true, false) }) //mutant:recordtest-peeks
}

// Oldest implements [record.Peeker].
func (c peeking) Oldest(ctx context.Context, name string) (record.Note, error) {
	r, err := send(ctx, c.Client, Request{Op: OpInbox, Name: name}, func() record.Record { return c.m.load(name, false, true) })
	if err != nil || len(r.Inbox) == 0 {
		return record.Note{}, err
	}
	return r.Inbox[0], nil //mutant:recordtest-oldest
}
